"""The jobs' access to Kafka: properties, an admin client, bounded reads, timestamps."""
