"""The doctor: checks of a connection, its storage and this machine, each with a remedy. Nothing on Kafka is changed."""
