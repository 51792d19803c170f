"""The size of the records that a commit makes a broker write, and the limit.

A broker writes the offsets of one OffsetCommit as ONE atomic batch. Consumers commit what each of them reads, so a
group may have more offsets than a batch holds: 300 with 4,000 bytes of metadata each, or 10,000 with long names. In one
request, all of them fail: with INVALID_COMMIT_OFFSET_SIZE up to Kafka 3.9, with UNKNOWN_SERVER_ERROR from 4.0 on. So
such a group is committed in slices, each at most half of what a batch holds as brokers are shipped. A slice that was
still too much is halved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from airflow_kafka_groups.exceptions import BrokerError, KafkaGroupsError, PartitionsFailedError
from airflow_kafka_groups.kafka.admin.handlers.tombstone_size import BUDGET_BYTES
from airflow_kafka_groups.kafka.models import GroupOffsets, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode

Commits = Mapping[TopicPartition, OffsetAndMetadata]

_RECORD_BYTES = 80  # at most: 44 of key and value, a topic id of Kafka 4, the varints of a long batch
_FITS_BYTES = 16_384
"""What surely fits: an error that means something else is not asked for once for each offset."""
_TOO_LARGE = frozenset({int(ErrorCode.invalid_commit_offset_size), int(ErrorCode.unknown_server_error)})


def commit_bytes(group_id: str, offsets: Commits) -> int:
    """Return about how many bytes a broker writes for a commit of these offsets, which are in columns."""
    found, size = 0, _RECORD_BYTES + len(group_id.encode())
    for topic in cast("GroupOffsets", offsets).topics:
        found += len(topic) * (size + len(topic.topic.encode()))
        if topic.metadata is not None:
            found += sum(len(text.encode()) for text in topic.metadata)
    return found


def commit_slices(group_id: str, offsets: Commits, budget: int = BUDGET_BYTES) -> list[Commits]:
    """Split the offsets of one group into parts of at most so many bytes, or of one offset."""
    parts: list[dict[TopicPartition, OffsetAndMetadata]] = [{}]
    filled, size = 0, _RECORD_BYTES + len(group_id.encode())
    for where, value in offsets.items():
        record = size + len(where.topic.encode()) + len(value.metadata.encode())
        if filled + record > budget and parts[-1]:
            parts.append({})
            filled = 0
        parts[-1][where] = value
        filled += record
    return [cast("Commits", GroupOffsets.from_mapping(group_id, part)) for part in parts]


def smaller_slices(group_id: str, offsets: Commits, error: KafkaGroupsError | None) -> list[Commits]:
    """Return the halves of a commit that was too much for the broker; nothing if it failed for another reason."""
    if not isinstance(error, PartitionsFailedError) or len(error.partition_errors) < len(offsets):
        return []
    codes = {each.code if isinstance(each, BrokerError) else 0 for each in error.partition_errors.values()}
    size = commit_bytes(group_id, offsets)
    if len(codes) > 1 or not codes <= _TOO_LARGE or size <= _FITS_BYTES:
        return []
    slices = commit_slices(group_id, offsets, size // 2 + 1)
    return slices if len(slices) > 1 else []
