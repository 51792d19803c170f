"""ListOffsets and Fetch: what a partition's leader says of its log.

ListOffsets (log start, end, or the offset at a time): v1 one offset a partition · v2 isolation level, throttle time ·
v4 leader epoch · v6 flexible · v7 max timestamp (KIP-734) · v8, v9 tiered storage's own timestamps

Fetch (whether anything can be read near the end of a log): v12, the last one that names topics. Records are never
decoded, only the headers of batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from struct import Struct

from airflow_kafka_groups.exceptions import UnsupportedVersionError
from airflow_kafka_groups.kafka.models import ListedOffset, OffsetSpec, TopicPartition
from airflow_kafka_groups.kafka.protocol.answers import NO_THROTTLE, FetchedTail, KeyedAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import FETCH, LIST_OFFSETS
from airflow_kafka_groups.kafka.protocol.codec import Message, by_topic, fitting, request_schema
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode

_READ_COMMITTED = 1
_BYTES_OF_PARTITION = 16_384
_BYTES = 1_048_576
_BATCH = Struct(">qiibIhiqqqhii")
_LENGTH_ENDS_AT = 12
_TRANSACTIONAL, _CONTROL = 0x10, 0x20

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


def build_fetch(offsets: Mapping[TopicPartition, int], version: int) -> Message:
    """Build a request that does not wait, and takes little from each partition."""
    schema = request_schema(FETCH, version)
    part, size = schema.FetchPartition, _BYTES_OF_PARTITION
    return schema.FetchRequest(
        max_wait=timedelta(),
        min_bytes=0,
        max_bytes=_BYTES,
        isolation_level=_READ_COMMITTED,
        topics=by_topic(
            schema.FetchTopic,
            offsets,
            lambda at: part(partition=at.partition, fetch_offset=offsets[at], partition_max_bytes=size),
        ),
        forgotten_topics_data=(),
    )


def fetched_from_kio(response: Message) -> KeyedAnswer[TopicPartition, FetchedTail]:
    rows = []
    for topic in response.responses:
        for part in topic.partitions:
            aborted = [(each.producer_id, each.first_offset) for each in part.aborted_transactions or ()]
            error = ErrorCode(part.error_code or response.error_code)
            tail = FetchedTail(*ends_of(bytes(part.records or b""), aborted))
            rows.append(([TopicPartition(topic.topic, part.partition_index)], error, None, tail))
    return KeyedAnswer.of(response.throttle_time, rows)


def ends_of(batches: bytes, aborted: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """Return where complete batches end, and where those with readable records do; 0 where there are none.

    :param aborted: the producer and the first offset of transactions that were aborted.
    """
    left, open_ones = sorted(aborted, key=lambda each: each[1]), set()
    at = reached = readable = 0
    while at + _BATCH.size <= len(batches):
        base, length, _, magic, _, attributes, delta, _, _, producer, _, _, count = _BATCH.unpack_from(batches, at)
        at += _LENGTH_ENDS_AT + length
        if magic < 2 or at > len(batches) or length < _BATCH.size - _LENGTH_ENDS_AT:
            break  # of an old format, or cut off
        reached = base + delta + 1
        while left and left[0][1] < reached:
            open_ones.add(left.pop(0)[0])
        if attributes & _CONTROL:
            open_ones.discard(producer)
        elif count and not (attributes & _TRANSACTIONAL and producer in open_ones):
            readable = reached
    return reached, readable
