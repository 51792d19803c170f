"""How a job reaches Kafka: properties, the connector's own client, bounded reads, timestamps."""
