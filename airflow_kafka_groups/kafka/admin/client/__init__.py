"""The public calls of the core: what a caller asks, turned into a handler for the engine, and results in order."""

from airflow_kafka_groups.kafka.admin.client.admin_client import AdminClient

__all__ = ["AdminClient"]
