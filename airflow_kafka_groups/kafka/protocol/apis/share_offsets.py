"""DescribeShareGroupOffsets and AlterShareGroupOffsets (KIP-932): where the partitions of share groups start.

DescribeShareGroupOffsets: v0 many groups, all topics where none is named · v1 lag (KIP-1226; not read). For a group of
another type, and for one that does not exist, brokers answer without a topic and without an error.

AlterShareGroupOffsets: v0 one group; an error for the group, and one for each partition. It creates a group that does
not exist. Kafka 4.1, which has a preview, answers as if there was nothing to do, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_kafka_groups.kafka.models import OffsetAndMetadata, TopicOffsets, TopicPartition
from airflow_kafka_groups.kafka.protocol.answers import GroupOffsetsAnswer, OffsetChangeAnswer, OffsetFetchAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import ALTER_SHARE_OFFSETS, DESCRIBE_SHARE_OFFSETS
from airflow_kafka_groups.kafka.protocol.codec import Message, by_topic, request_schema
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode


def build(group_ids: Sequence[str], version: int) -> Message:
    """Build a request for all start offsets of some groups."""
    schema = request_schema(DESCRIBE_SHARE_OFFSETS, version)
    groups = [schema.DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None) for group_id in group_ids]
    return schema.DescribeShareGroupOffsetsRequest(groups=tuple(groups))


def from_kio(response: Message) -> OffsetFetchAnswer:
    """Convert a response that kio has read; partitions of which a group has read nothing are left out."""
    groups = [
        GroupOffsetsAnswer(
            group.group_id,
            ErrorCode(group.error_code),
            tuple([_topic(topic) for topic in group.topics]),
            {
                TopicPartition(topic.topic_name, part.partition_index): ErrorCode(part.error_code)
                for topic in group.topics
                for part in topic.partitions
                if part.error_code
            },
        )
        for group in response.groups
    ]
    return OffsetFetchAnswer(response.throttle_time, {}, groups)


def _topic(topic: Any) -> TopicOffsets:
    # The leader epoch is that of the log when the broker was asked: no part of the position.
    read = [part for part in topic.partitions if part.start_offset >= 0 and not part.error_code]
    return TopicOffsets.of_rows(topic.topic_name, [(part.partition_index, part.start_offset, -1, "") for part in read])


def build_alter(group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], version: int) -> Message:
    """Build a request for one group; no version takes more."""
    schema = request_schema(ALTER_SHARE_OFFSETS, version)
    kind, part = schema.AlterShareGroupOffsetsRequestTopic, schema.AlterShareGroupOffsetsRequestPartition
    topics = by_topic(kind, offsets, lambda at: part(partition_index=at.partition, start_offset=offsets[at].offset))
    return schema.AlterShareGroupOffsetsRequest(group_id=group_id, topics=topics)


def altered_from_kio(response: Message) -> OffsetChangeAnswer:
    """Convert a response of AlterShareGroupOffsets that kio has read."""
    partitions = {
        TopicPartition(topic.topic_name, part.partition_index): ErrorCode(part.error_code)
        for topic in response.responses
        for part in topic.partitions
    }
    return OffsetChangeAnswer(response.throttle_time, ErrorCode(response.error_code), partitions)
