"""ListOffsets: log start, end, or the offset at a time, asked of the partition's leader.

v1 one offset a partition · v2 isolation level, throttle time · v4 leader epoch · v6 flexible ·
v7 max timestamp (KIP-734) · v8, v9 tiered storage's own timestamps
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_kafka_groups.exceptions import UnsupportedVersionError
from airflow_kafka_groups.kafka.models import ListedOffset, OffsetSpec, TopicPartition
from airflow_kafka_groups.kafka.protocol.answers import NO_THROTTLE, KeyedAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import LIST_OFFSETS
from airflow_kafka_groups.kafka.protocol.codec import Message, by_topic, fitting, request_schema
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode

_NO_REPLICA = -1
_FIRST_MAX_TIMESTAMP_VERSION = 7


def build(specs: Mapping[TopicPartition, OffsetSpec], version: int) -> Message:
    """Build a request.

    Raises ``UnsupportedVersionError`` for ``OffsetSpec.max_timestamp()`` below v7.
    """
    if version < _FIRST_MAX_TIMESTAMP_VERSION and OffsetSpec.max_timestamp() in specs.values():
        raise UnsupportedVersionError(f"ListOffsets v{version} does not know the max timestamp; that takes v7")
    schema = request_schema(LIST_OFFSETS, version)
    part = schema.ListOffsetsPartition
    topics = by_topic(
        schema.ListOffsetsTopic, specs, lambda at: part(partition_index=at.partition, timestamp=specs[at].timestamp)
    )
    return fitting(schema.ListOffsetsRequest, replica_id=_NO_REPLICA, isolation_level=0, topics=topics)


def from_kio(response: Message) -> KeyedAnswer[TopicPartition, ListedOffset]:
    rows = []
    for topic in response.topics:
        for part in topic.partitions:
            epoch = getattr(part, "leader_epoch", -1)
            offset = ListedOffset(part.offset, part.timestamp, epoch if epoch >= 0 else None)
            rows.append(([TopicPartition(topic.name, part.partition_index)], ErrorCode(part.error_code), None, offset))
    return KeyedAnswer.of(getattr(response, "throttle_time", NO_THROTTLE), rows)
