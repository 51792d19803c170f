"""Real Spark clusters of processes, and what Spark's JVMs start from."""
