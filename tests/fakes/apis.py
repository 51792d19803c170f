"""All APIs that the package uses."""

from airflow_kafka_groups.kafka.protocol import api_versions as apis
from airflow_kafka_groups.kafka.protocol.api_versions import Api

ALL_APIS = tuple(found for found in vars(apis).values() if isinstance(found, Api))
