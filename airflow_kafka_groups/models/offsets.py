"""Offsets: which are wanted, and what is said of one partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from airflow_kafka_groups.models.cluster import TopicPartition

NO_OFFSET = -1
"""What brokers answer for a partition without a committed offset."""


class OffsetAndMetadata(NamedTuple):
    """Be a committed offset."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class ListConsumerGroupOffsetsSpec:
    """Say which partitions of a group to list (KIP-709).

    :param topic_partitions: the partitions wanted; ``None`` (default) for all that have a committed offset. A
        partition asked for by name is always in the result, with ``None`` where it has no commit.
    """

    topic_partitions: tuple[TopicPartition, ...] | None = None


@dataclass(frozen=True, slots=True)
class OffsetSpec:
    """Say which offset of a partition is wanted; made by ``earliest()``, ``latest()`` and the others."""

    timestamp: int

    @classmethod
    def earliest(cls) -> OffsetSpec:
        """Ask for the log start offset."""
        return cls(-2)

    @classmethod
    def latest(cls) -> OffsetSpec:
        """Ask for the end offset (the next one to be written)."""
        return cls(-1)

    @classmethod
    def max_timestamp(cls) -> OffsetSpec:
        """Ask for the offset of the record with the highest timestamp (KIP-734; ListOffsets v7)."""
        return cls(-3)

    @classmethod
    def for_timestamp(cls, timestamp_ms: int) -> OffsetSpec:
        """Ask for the first offset at or after a time.

        :param timestamp_ms: milliseconds since the epoch.
        """
        return cls(timestamp_ms)


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """Be the answer of ListOffsets for one partition; ``offset`` -1 means that no record matches."""

    offset: int
    timestamp: int = -1
    leader_epoch: int | None = None
