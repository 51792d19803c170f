"""OffsetDelete: delete a group's offsets of some partitions (KIP-496).

v0 one group; an error for the group, and one for each partition
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.kafka.protocol.answers import OffsetChangeAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import OFFSET_DELETE
from airflow_kafka_groups.kafka.protocol.codec import Message, request_schema
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode


def build(group_id: str, partitions: Iterable[TopicPartition], version: int) -> Message:
    """Build a request for one group; no version takes more."""
    schema = request_schema(OFFSET_DELETE, version)
    by_topic: dict[str, list[Any]] = {}
    for topic, partition in partitions:
        item = schema.OffsetDeleteRequestPartition(partition_index=partition)
        by_topic.setdefault(topic, []).append(item)
    topics = tuple(schema.OffsetDeleteRequestTopic(name=topic, partitions=tuple(p)) for topic, p in by_topic.items())
    return schema.OffsetDeleteRequest(group_id=group_id, topics=topics)


def from_kio(response: Message) -> OffsetChangeAnswer:
    """Convert a response that kio has read."""
    partitions = {
        TopicPartition(topic.name, part.partition_index): ErrorCode(part.error_code)
        for topic in response.topics
        for part in topic.partitions
    }
    return OffsetChangeAnswer(response.throttle_time, ErrorCode(response.error_code), partitions)
