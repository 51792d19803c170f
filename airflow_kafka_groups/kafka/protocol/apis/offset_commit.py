"""OffsetCommit and OffsetDelete: change a group's committed offsets from outside (generation -1, no member).

OffsetCommit: v2 · v5 no retention time · v6 leader epoch · v7 group.instance.id · v8 flexible · v9 KIP-848 errors ·
v10 topic ids (not used: see ``api_versions``)

OffsetDelete (KIP-496): v0 one group; an error for the group, and one for each partition

From OffsetCommit v8 on, requests are written from columns: a restore sends one request for each group, so that a
generic codec's object for each partition is most of its time. A row without metadata has 18 bytes::

    partition int32 | offset int64 | leader epoch int32 | metadata 0x01 (empty) | tags 0x00
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from airflow_kafka_groups.kafka.models import GroupOffsets, OffsetAndMetadata, TopicOffsets, TopicPartition
from airflow_kafka_groups.kafka.protocol.answers import NO_THROTTLE, OffsetChangeAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import OFFSET_COMMIT, OFFSET_DELETE
from airflow_kafka_groups.kafka.protocol.codec import (
    NO_TAGS,
    Message,
    by_topic,
    decode_message,
    fitting,
    request_schema,
    string,
    uvarint,
)
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode

_NOT_A_MEMBER = -1
_NO_MEMBER = b"\xff\xff\xff\xff\x01\x00"  # generation or member epoch -1, empty member id, null instance id
_FIXED = struct.Struct(">iqi")
_EMPTY_METADATA = b"\x01" + NO_TAGS
_ALIKE_BYTES = 1_024
"""The most bytes of a response whose meaning is remembered."""


def build(group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], version: int) -> Message:
    """Build a request for one group; no version takes more."""
    if OFFSET_COMMIT.is_flexible(version):
        columns = offsets if isinstance(offsets, GroupOffsets) else GroupOffsets.from_mapping(group_id, offsets)
        return _encode(group_id, columns.topics)
    schema = request_schema(OFFSET_COMMIT, version)

    def part(at: TopicPartition) -> Message:
        value = offsets[at]
        return fitting(
            schema.OffsetCommitRequestPartition,
            partition_index=at.partition,
            committed_offset=value.offset,
            committed_leader_epoch=-1 if value.leader_epoch is None else value.leader_epoch,
            committed_metadata=value.metadata,
        )

    topics = by_topic(schema.OffsetCommitRequestTopic, offsets, part)
    return schema.OffsetCommitRequest(
        group_id=group_id, generation_id_or_member_epoch=_NOT_A_MEMBER, member_id="", topics=topics
    )


def from_kio(response: Message) -> OffsetChangeAnswer:
    """Convert a response of either API that kio has read; OffsetCommit has no error for the group."""
    partitions = {
        TopicPartition(topic.name, part.partition_index): ErrorCode(part.error_code)
        for topic in response.topics
        for part in topic.partitions
    }
    error = ErrorCode(getattr(response, "error_code", 0))
    return OffsetChangeAnswer(getattr(response, "throttle_time", NO_THROTTLE), error, partitions)


def _encode(group_id: str, topics: Sequence[TopicOffsets]) -> bytes:
    """Write the body of a request of v8 or v9 from outside a group.

    :param topics: the offsets to commit, each of 0 or more; no topic comes twice.
    """
    parts = [string(group_id), _NO_MEMBER, uvarint(len(topics) + 1)]
    for topic in topics:
        parts += (string(topic.topic), uvarint(len(topic) + 1), _rows(topic), NO_TAGS)
    parts.append(NO_TAGS)
    return b"".join(parts)


def _rows(topic: TopicOffsets) -> bytes:
    if topic.metadata is None:
        return _EMPTY_METADATA.join((*topic.fixed_fields(), b""))
    return b"".join([_FIXED.pack(*row[:3]) + string(row[3]) + NO_TAGS for row in topic.rows()])


def decode(frame: bytes, version: int) -> OffsetChangeAnswer:
    """Decode a frame of v8 or v9. Those of groups that read the same topics differ in the correlation id only."""
    return _read_alike(frame[4:], version) if len(frame) <= _ALIKE_BYTES else _read(frame, version)


@lru_cache(1000)
def _read_alike(frame: bytes, version: int) -> OffsetChangeAnswer:
    return _read(b"\x00\x00\x00\x00" + frame, version)


def _read(frame: bytes, version: int) -> OffsetChangeAnswer:
    return from_kio(decode_message(OFFSET_COMMIT, version, frame))


def build_delete(group_id: str, partitions: Iterable[TopicPartition], version: int) -> Message:
    """Build a request of OffsetDelete for one group; no version takes more."""
    schema = request_schema(OFFSET_DELETE, version)
    part = schema.OffsetDeleteRequestPartition
    topics = by_topic(schema.OffsetDeleteRequestTopic, partitions, lambda at: part(partition_index=at.partition))
    return schema.OffsetDeleteRequest(group_id=group_id, topics=topics)
