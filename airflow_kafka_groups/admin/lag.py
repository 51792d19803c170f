"""How far a group is behind, and what is odd about it. Pure.

Lag is never negative and never guessed: where end minus committed would be, the flag says why there is no number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.models import GroupId, GroupOffsets, ListedOffset, TopicPartition

LogOffsets = Mapping[TopicPartition, ListedOffset | KafkaGroupsError]


class LagFlag(StrEnum):
    """A remark about one partition of a group.

    ``RECREATED``: committed beyond the end; the topic was recreated or truncated. ``DATA_LOST``: committed below the
    log start; what lay between is gone, unread. ``UNKNOWN``: the log's ends could not be read.
    """

    OK = "ok"
    NO_COMMIT = "no_commit"
    RECREATED = "recreated"
    DATA_LOST = "data_lost"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The lag of a group in one partition.

    :param messages: records from the committed offset (or the log start, if that is later) to the end; ``None`` where
        there is no commit, the topic was recreated, or an end is not known.
    :param lost: records below the log start that the group never read.
    """

    flag: LagFlag
    messages: int | None = None
    lost: int = 0


def partition_lag(committed: int | None, start: ListedOffset | None, end: ListedOffset | None) -> PartitionLag:
    """Compare a committed offset with the ends of the log.

    :param committed: the committed offset; ``None`` where there is none.
    :param start: the log start; ``None`` where it could not be read.
    :param end: the end offset; ``None`` where it could not be read.
    """
    if committed is None or committed < 0:
        return PartitionLag(LagFlag.NO_COMMIT)
    if start is None or end is None or start.offset < 0 or end.offset < 0:
        return PartitionLag(LagFlag.UNKNOWN)
    if committed > end.offset:
        return PartitionLag(LagFlag.RECREATED)
    if committed < start.offset:
        return PartitionLag(LagFlag.DATA_LOST, end.offset - start.offset, start.offset - committed)
    return PartitionLag(LagFlag.OK, end.offset - committed)


@dataclass(frozen=True, slots=True)
class GroupLag:
    """The lag of one group in all its partitions."""

    group_id: GroupId
    partitions: Mapping[TopicPartition, PartitionLag]

    @property
    def messages(self) -> int | None:
        """Add up the partitions; ``None`` if a partition with a commit has no number, so that short is not small."""
        total = 0
        for lag in self.partitions.values():
            if lag.flag is LagFlag.NO_COMMIT:
                continue
            if lag.messages is None:
                return None
            total += lag.messages
        return total


def group_lag(offsets: GroupOffsets, starts: LogOffsets, ends: LogOffsets) -> GroupLag:
    """Compare a group's committed offsets with the ends of the logs."""
    lags = {}
    for partition, value in offsets.items():
        start, end = starts.get(partition), ends.get(partition)
        lags[partition] = partition_lag(
            None if value is None else value.offset,
            start if isinstance(start, ListedOffset) else None,
            end if isinstance(end, ListedOffset) else None,
        )
    return GroupLag(offsets.group_id, lags)
