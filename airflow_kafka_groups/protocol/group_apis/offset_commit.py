"""OffsetCommit: set a group's committed offsets from outside (generation -1, no member).

v2 · v5 no retention time · v6 leader epoch · v7 group.instance.id · v8 flexible · v9 KIP-848 errors ·
v10 topic ids (not used: see apis.py)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_kafka_groups.models import GroupOffsets, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.protocol.answers import NO_THROTTLE, OffsetChangeAnswer
from airflow_kafka_groups.protocol.apis import OFFSET_COMMIT
from airflow_kafka_groups.protocol.codec import Message, request_schema
from airflow_kafka_groups.protocol.error_codes import ErrorCode
from airflow_kafka_groups.protocol.hot_codecs import offset_commit as hot_codec

_FIRST_EPOCH_VERSION = 6
_NOT_A_MEMBER = -1


def build(group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], version: int) -> Message:
    """Build a request for one group; no version takes more."""
    if OFFSET_COMMIT.is_flexible(version):
        columns = offsets if isinstance(offsets, GroupOffsets) else GroupOffsets.from_mapping(group_id, offsets)
        return hot_codec.encode(group_id, columns.topics)
    schema = request_schema(OFFSET_COMMIT, version)
    by_topic: dict[str, list[Any]] = {}
    for (topic, partition), value in offsets.items():
        fields: dict[str, Any] = {
            "partition_index": partition,
            "committed_offset": value.offset,
            "committed_metadata": value.metadata,
        }
        if version >= _FIRST_EPOCH_VERSION and value.leader_epoch is not None:
            fields["committed_leader_epoch"] = value.leader_epoch
        by_topic.setdefault(topic, []).append(schema.OffsetCommitRequestPartition(**fields))
    topics = tuple(schema.OffsetCommitRequestTopic(name=topic, partitions=tuple(p)) for topic, p in by_topic.items())
    return schema.OffsetCommitRequest(
        group_id=group_id, generation_id_or_member_epoch=_NOT_A_MEMBER, member_id="", topics=topics
    )


def from_kio(response: Message) -> OffsetChangeAnswer:
    """Convert a response that kio has read."""
    partitions = {
        TopicPartition(topic.name, part.partition_index): part.error_code
        for topic in response.topics
        for part in topic.partitions
    }
    return OffsetChangeAnswer(getattr(response, "throttle_time", NO_THROTTLE), ErrorCode.none, partitions)
