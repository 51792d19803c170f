"""The jobs' access to Kafka: properties, an admin client, and reads of records."""
