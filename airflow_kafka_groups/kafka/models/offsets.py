"""Offsets, and the specifications of the offsets to list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from airflow_kafka_groups.kafka.models.cluster import TopicPartition

NO_OFFSET = -1
"""The offset in a response for a partition without a commit."""


class OffsetAndMetadata(NamedTuple):
    """A committed offset."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class ListConsumerGroupOffsetsSpec:
    """The partitions of a group to list (KIP-709).

    :param topic_partitions: the partitions; ``None`` (default) for all with a committed offset. A partition requested
        by name is always in the result, with ``None`` if it has no commit.
    """

    topic_partitions: tuple[TopicPartition, ...] | None = None


@dataclass(frozen=True, slots=True)
class OffsetSpec:
    """Which offset of a partition to list; use ``earliest()``, ``latest()`` etc. to create one."""

    timestamp: int

    @classmethod
    def earliest(cls) -> OffsetSpec:
        """Request the log start offset."""
        return cls(-2)

    @classmethod
    def latest(cls) -> OffsetSpec:
        """Request the end offset (the offset of the next record to be written)."""
        return cls(-1)

    @classmethod
    def max_timestamp(cls) -> OffsetSpec:
        """Request the offset of the record with the highest timestamp (KIP-734; ListOffsets v7)."""
        return cls(-3)

    @classmethod
    def for_timestamp(cls, timestamp_ms: int) -> OffsetSpec:
        """Request the first offset at or after a time.

        :param timestamp_ms: milliseconds since the epoch.
        """
        return cls(timestamp_ms)


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """The result of ListOffsets for one partition; ``offset`` -1 means that no record matches."""

    offset: int
    timestamp: int = -1
    leader_epoch: int | None = None
