"""How far a group is behind: lag is never negative and never guessed, and a flag explains a missing number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import repeat

from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.kafka.models import GroupId, GroupOffsets, ListedOffset, TopicPartition
from airflow_kafka_groups.kafka.protocol.answers import FetchedTail

_NEARLY = 1_000
"""As many offsets may be left of a partition for a look at whether they have records: markers of transactions."""

_MOST_TAILS = 1_000
LogOffsets = Mapping[TopicPartition, ListedOffset | KafkaGroupsError]


class LagFlag(StrEnum):
    """A remark about one partition of a group.

    ``BEYOND_END``: committed beyond the end; the topic was recreated or truncated, or the offset is of another cluster.
    ``DATA_LOST``: committed below the log start; what lay between is gone, unread. ``UNKNOWN``: the log's ends could
    not be read.
    """

    OK = "ok"
    NO_COMMIT = "no_commit"
    BEYOND_END = "beyond_end"
    DATA_LOST = "data_lost"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The lag of a group in one partition.

    :param messages: records from the committed offset (or the log start, if that is later) to the end; ``None`` where
        there is no commit, it is beyond the end, or an end is not known.
    :param lost: records below the log start that the group never read.
    """

    flag: LagFlag
    messages: int | None = None
    lost: int = 0


def partition_lag(committed: int | None, bounds: tuple[int, int] | None, readable: int | None = None) -> PartitionLag:
    """Compare a committed offset with the ends of the log: the definition of lag (``admin.arrow`` has it for columns).

    :param committed: the committed offset; ``None`` or negative where there is none.
    :param bounds: the log start and the end offset; ``None`` where one of them could not be read.
    :param readable: where the readable records end. Default: at the end.
    """
    if committed is None or committed < 0:
        return PartitionLag(LagFlag.NO_COMMIT)
    if bounds is None:
        return PartitionLag(LagFlag.UNKNOWN)
    start, end = bounds
    if committed > end:
        return PartitionLag(LagFlag.BEYOND_END)
    # Retention may have removed records between the two answers, so that the start is beyond the end.
    first = min(max(committed, start), end)
    messages = max((end if readable is None else readable) - first, 0)
    return PartitionLag(LagFlag.DATA_LOST if first > committed else LagFlag.OK, messages, first - committed)


class LogBounds:
    """Where logs start and end, for many groups that read them.

    Ask for the ends after the committed offsets are read: a commit that is newer looks like one beyond the end.
    """

    def __init__(self, starts: LogOffsets, ends: LogOffsets) -> None:
        self._bounds: dict[tuple[str, int], tuple[int, int]] = {}
        self.readable: dict[tuple[str, int], int] = {}
        """Where the readable records of partitions end, where that is known to be before the end."""
        for where, end in ends.items():
            start = starts.get(where)
            if isinstance(start, ListedOffset) and isinstance(end, ListedOffset) and min(start.offset, end.offset) >= 0:
                self._bounds[where] = start.offset, end.offset

    def nearly_read(self, groups: Iterable[GroupOffsets]) -> dict[TopicPartition, int]:
        """Return the partitions that some group has nearly read, each with the lowest such offset; 1,000 at most."""
        found: dict[TopicPartition, int] = {}
        for where, committed in (row for offsets in groups for row in _commits(offsets)):
            start, end = self._bounds.get(where, (0, -1))
            first = max(committed, start)
            if committed >= 0 and first < end <= first + _NEARLY:
                key = TopicPartition(*where)
                if key in found or len(found) < _MOST_TAILS:
                    found[key] = min(found.get(key, first), first)
        return found

    def end_readable(
        self, looked_at: Mapping[TopicPartition, int], tails: Mapping[TopicPartition, FetchedTail]
    ) -> None:
        """Take in where the readable records end, of what ``nearly_read`` found (``looked_at``), and not before that.

        A tail that does not reach the end says nothing.
        """
        for where, (reached, readable) in tails.items():
            end = self._bounds[where][1]
            last = max(readable, looked_at[where])
            if reached >= end > last:
                self.readable[where] = last

    def lag(self, where: tuple[str, int], committed: int) -> PartitionLag:
        """Return the lag of a group in one partition."""
        return partition_lag(committed, self._bounds.get(where), self.readable.get(where))

    def sums(self, offsets: GroupOffsets) -> tuple[int, int] | None:
        """Add up ``messages`` and ``lost``; ``None`` if a partition with a commit has no number."""
        messages = lost = 0
        for where, committed in _commits(offsets):
            start, end = self._bounds.get(where, (0, -1))
            if start <= committed <= end and where not in self.readable:  # as nearly always
                messages += end - committed
                continue
            found = self.lag(where, committed)
            if found.messages is not None:
                messages += found.messages
                lost += found.lost
            elif found.flag is not LagFlag.NO_COMMIT:
                return None
        return messages, lost


class GroupLag:
    """The lag of one group: its sums, and ``partitions`` on first use."""

    def __init__(self, offsets: GroupOffsets, bounds: LogBounds) -> None:
        self.offsets, self._bounds = offsets, bounds
        self.group_id: GroupId = offsets.group_id
        sums = bounds.sums(offsets)
        self.messages: int | None = None if sums is None else sums[0]
        """The sum of the partitions; ``None`` if a partition with a commit has no number: incomplete is not small."""
        self.lost: int | None = None if sums is None else sums[1]
        """The sum of what was removed unread, which is no part of ``messages``; ``None`` where ``messages`` is."""

    @cached_property
    def partitions(self) -> Mapping[TopicPartition, PartitionLag]:
        """The lag of each partition."""
        return {TopicPartition(*where): self._bounds.lag(where, offset) for where, offset in _commits(self.offsets)}

    @property
    def committed_partitions(self) -> int:
        """The number of partitions with a commit."""
        return sum(topic.committed for topic in self.offsets.topics)


def _commits(offsets: GroupOffsets) -> Iterator[tuple[tuple[str, int], int]]:
    for topic in offsets.topics:
        flat = topic.flat_rows()
        yield from zip(zip(repeat(topic.topic), flat[0::3], strict=False), flat[1::3], strict=True)


def partitions_of(groups: Iterable[GroupOffsets]) -> list[TopicPartition]:
    """Return the partitions that groups have committed offsets of, each once."""
    by_topic: dict[str, set[int]] = {}
    for offsets in groups:
        for topic in offsets.topics:
            by_topic.setdefault(topic.topic, set()).update(topic.flat_rows()[0::3])
    return [TopicPartition(topic, number) for topic, numbers in by_topic.items() for number in sorted(numbers)]
