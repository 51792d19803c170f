"""All APIs that the package uses."""

from __future__ import annotations

from airflow_kafka_groups.kafka.protocol import protocol_apis as apis
from airflow_kafka_groups.kafka.protocol.protocol_apis import Api

ALL_APIS = tuple(found for found in vars(apis).values() if isinstance(found, Api))
