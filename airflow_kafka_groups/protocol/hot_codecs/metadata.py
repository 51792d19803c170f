"""Write and read Metadata v9-v12 by hand: every client's first question, and kio needs 10 ms to get ready for it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from airflow_kafka_groups.protocol.error_codes import ErrorCode
from airflow_kafka_groups.protocol.hot_codecs.compact_reader import CompactReader
from airflow_kafka_groups.protocol.hot_codecs.compact_writer import NO_TAGS, text, uvarint

FIRST_VERSION_WITH_TOPIC_IDS = 10
LAST_VERSION_WITH_CLUSTER_OPERATIONS = 10
"""From v11 on they are DescribeCluster's to tell; brokers go on answering v10."""
_FIRST_VERSION_WITH_NULL_NAMES = 12
_NO_ID = b"\x00" * 16


class BrokerRow(NamedTuple):
    """Be one broker of an answer."""

    node_id: int
    host: str
    port: int
    rack: str | None


class PartitionRow(NamedTuple):
    """Be one partition of an answer, without its replicas."""

    error_code: ErrorCode
    partition_index: int
    leader_id: int


class TopicRow(NamedTuple):
    """Be one topic of an answer."""

    error_code: ErrorCode
    name: str | None
    topic_id: UUID | None
    partitions: tuple[PartitionRow, ...]
    topic_authorized_operations: int


class MetadataResponse(NamedTuple):
    """Be an answer, read by hand; operations are -2**31 where they were not asked for."""

    throttle_time: timedelta
    brokers: tuple[BrokerRow, ...]
    cluster_id: str | None
    controller_id: int
    topics: tuple[TopicRow, ...]
    cluster_authorized_operations: int


def write(topics: Sequence[str], version: int, *, include_authorized_operations: bool) -> bytes:
    """Write the body of a request; it creates no topic."""
    before = _NO_ID if version >= FIRST_VERSION_WITH_TOPIC_IDS else b""
    asked = b"\x01" if include_authorized_operations else b"\x00"
    return b"".join(
        (
            uvarint(len(topics) + 1),
            *(before + text(topic) + NO_TAGS for topic in topics),
            b"\x00",
            asked if version <= LAST_VERSION_WITH_CLUSTER_OPERATIONS else b"",
            asked,
            NO_TAGS,
        )
    )


def read(frame: bytes, version: int) -> MetadataResponse:
    """Read a response frame of v9 to v12."""
    reader = CompactReader(frame)
    throttle = reader.milliseconds()
    brokers = tuple([_broker(reader) for _ in range(reader.length())])
    cluster_id, controller = reader.optional_text(), reader.int32()
    topics = tuple([_topic(reader, version) for _ in range(reader.length())])
    allowed = reader.int32() if version <= LAST_VERSION_WITH_CLUSTER_OPERATIONS else -(2**31)
    reader.skip_tags()
    reader.end()
    return MetadataResponse(throttle, brokers, cluster_id, controller, topics, allowed)


def _broker(reader: CompactReader) -> BrokerRow:
    row = BrokerRow(reader.int32(), reader.text(), reader.int32(), reader.optional_text())
    reader.skip_tags()
    return row


def _topic(reader: CompactReader, version: int) -> TopicRow:
    error = ErrorCode(reader.int16())
    name = reader.optional_text() if version >= _FIRST_VERSION_WITH_NULL_NAMES else reader.text()
    topic_id = reader.uuid() if version >= FIRST_VERSION_WITH_TOPIC_IDS else None
    reader.boolean()  # whether it is one of Kafka's own
    partitions = tuple([_partition(reader) for _ in range(reader.length())])
    row = TopicRow(error, name, topic_id, partitions, reader.int32())
    reader.skip_tags()
    return row


def _partition(reader: CompactReader) -> PartitionRow:
    row = PartitionRow(ErrorCode(reader.int16()), reader.int32(), reader.int32())
    reader.int32()  # the leader's epoch
    for _ in ("replicas", "in sync", "offline"):
        reader.skip_int32s()
    reader.skip_tags()
    return row
