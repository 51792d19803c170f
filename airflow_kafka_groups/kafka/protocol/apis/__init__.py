"""One module for each Kafka API: groups and their offsets, brokers and partitions, membership."""
