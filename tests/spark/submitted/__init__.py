"""Jobs that spark-submit starts, in a process of their own."""
