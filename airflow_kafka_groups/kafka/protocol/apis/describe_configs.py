"""DescribeConfigs: settings of a broker, asked of that very broker.

v1 where a setting comes from · v3 types and documentation · v4 flexible
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_kafka_groups.kafka.models import BrokerId
from airflow_kafka_groups.kafka.protocol.answers import KeyedAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import DESCRIBE_CONFIGS
from airflow_kafka_groups.kafka.protocol.codec import Message, request_schema
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode

_BROKER = 4


def build(broker_id: BrokerId, settings: Sequence[str], version: int) -> Message:
    """Build a request for some settings of one broker."""
    schema = request_schema(DESCRIBE_CONFIGS, version)
    broker = schema.DescribeConfigsResource(
        resource_type=_BROKER, resource_name=str(broker_id), configuration_keys=tuple(settings)
    )
    return schema.DescribeConfigsRequest(resources=(broker,))


def from_kio(response: Message) -> KeyedAnswer[BrokerId, dict[str, str | None]]:
    """Convert a response that kio has read: the settings of each broker."""
    rows = [
        (
            [int(broker.resource_name)],
            ErrorCode(broker.error_code),
            broker.error_message,
            {setting.name: setting.value for setting in broker.configs},
        )
        for broker in response.results
    ]
    return KeyedAnswer.of(response.throttle_time, rows)
