"""One handler for each Kafka API: its requests, the meaning of its answers and errors, its limits."""
