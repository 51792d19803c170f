"""How far a group is behind, and what is odd about it. Pure.

Lag counts the records that can still be read, is never negative and never guessed: the flag explains a missing number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from operator import le

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
    """Compare a committed offset with the ends of the log: the package's one definition of lag.

    ``admin.arrow`` has it for columns.

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
    """Where logs start and end, by topic and partition number, for many groups that read them.

    :param ends: the end offsets. Ask for them after the committed offsets are read: a commit that is newer than the
        end offset looks like one beyond the end.
    """

    __slots__ = ("_by_topic", "_columns", "_readable")

    def __init__(self, starts: LogOffsets, ends: LogOffsets) -> None:
        self._by_topic: dict[str, dict[int, tuple[int, int]]] = {}
        self._columns: dict[tuple[str, tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self._readable: dict[str, dict[int, int]] = {}
        for key, end in ends.items():
            start = starts.get(key)
            if not isinstance(start, ListedOffset) or not isinstance(end, ListedOffset):
                continue
            if start.offset >= 0 and end.offset >= 0:
                self._by_topic.setdefault(key.topic, {})[key.partition] = start.offset, end.offset

    def of_topic(self, topic: str) -> Mapping[int, tuple[int, int]]:
        """Return start and end of each partition of a topic where both are known."""
        return self._by_topic.get(topic, {})

    def columns(self, topic: str, partitions: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the starts and the ends of partitions of a topic; (0, -1) where they are not known: no offset fits.

        Thousands of groups have the same partitions, so each combination is looked up once.
        """
        key = topic, partitions
        found = self._columns.get(key)
        if found is None:
            known = self.of_topic(topic)
            bounds = [known.get(partition, (0, -1)) for partition in partitions]
            found = self._columns[key] = (tuple(start for start, _ in bounds), tuple(end for _, end in bounds))
        return found

    def nearly_read(self, groups: Iterable[GroupOffsets]) -> dict[TopicPartition, int]:
        """Return the partitions that some group has nearly read, each with the lowest such offset; 1,000 at most."""
        found: dict[TopicPartition, int] = {}
        for topic in (topic for offsets in groups for topic in offsets.topics):
            flat = topic.flat_rows()
            bounds = self.columns(topic.topic, flat[0::3])
            for number, committed, start, end in zip(flat[0::3], flat[1::3], *bounds, strict=True):
                if 0 <= committed < end <= (first := max(committed, start)) + _NEARLY and first < end:
                    key = TopicPartition(topic.topic, number)
                    if key in found or len(found) < _MOST_TAILS:
                        found[key] = min(found.get(key, first), first)
        return found

    def end_readable(
        self, looked_at: Mapping[TopicPartition, int], tails: Mapping[TopicPartition, FetchedTail]
    ) -> None:
        """Take in where the readable records end. A tail that does not reach the end says nothing.

        :param looked_at: the result of ``nearly_read``: what is before these offsets was not looked at.
        """
        for where, (reached, readable) in tails.items():
            topic, partition = where
            end = self._by_topic[topic][partition][1]
            last = max(readable, looked_at[where])
            if reached >= end > last:
                self._readable.setdefault(topic, {})[partition] = last

    def readable(self, topic: str) -> Mapping[int, int]:
        """Return where the readable records of partitions end, if that is known to be before the end."""
        return self._readable.get(topic, {})


class GroupLag:
    """The lag of one group. Its sums are computed from columns, ``partitions`` on first use."""

    __slots__ = ("_bounds", "_offsets", "_partitions", "_sums")

    def __init__(self, offsets: GroupOffsets, bounds: LogBounds) -> None:
        self._offsets = offsets
        self._bounds = bounds
        self._partitions: dict[TopicPartition, PartitionLag] | None = None
        self._sums = _sums(offsets, bounds)

    @property
    def group_id(self) -> GroupId:
        """The group."""
        return self._offsets.group_id

    @property
    def offsets(self) -> GroupOffsets:
        """What the group has committed."""
        return self._offsets

    @property
    def partitions(self) -> Mapping[TopicPartition, PartitionLag]:
        """The lag of each partition."""
        if self._partitions is None:
            self._partitions = {
                TopicPartition(topic.topic, number): partition_lag(
                    offset, known.get(number), self._bounds.readable(topic.topic).get(number)
                )
                for topic in self._offsets.topics
                for known in (self._bounds.of_topic(topic.topic),)
                for number, offset in zip(topic.partitions, topic.offsets, strict=True)
            }
        return self._partitions

    @property
    def committed_partitions(self) -> int:
        """The number of partitions with a commit."""
        return sum(topic.committed for topic in self._offsets.topics)

    @property
    def messages(self) -> int | None:
        """The sum of the partitions; ``None`` if a partition with a commit has no number: incomplete is not small."""
        return None if self._sums is None else self._sums[0]

    @property
    def lost(self) -> int | None:
        """The sum of what was removed unread, which is no part of ``messages``; ``None`` where ``messages`` is."""
        return None if self._sums is None else self._sums[1]


def _sums(offsets: GroupOffsets, bounds: LogBounds) -> tuple[int, int] | None:
    """Add up ``partition_lag``'s ``messages`` and ``lost``; ``None`` if a partition with a commit has no number."""
    messages = lost = 0
    for topic in offsets.topics:
        flat = topic.flat_rows()
        committed_offsets = flat[1::3]
        starts, ends = bounds.columns(topic.topic, flat[0::3])
        readable = bounds.readable(topic.topic)
        if (
            not readable and all(map(le, starts, committed_offsets)) and all(map(le, committed_offsets, ends))
        ):  # as nearly always
            messages += sum(ends) - sum(committed_offsets)
            continue
        for number, start, committed, end in zip(flat[0::3], starts, committed_offsets, ends, strict=True):
            found = partition_lag(committed, (start, end), readable.get(number))
            if found.messages is not None:
                messages += found.messages
                lost += found.lost
            elif found.flag is not LagFlag.NO_COMMIT:
                return None
    return messages, lost


def partitions_of(groups: Iterable[GroupOffsets]) -> list[TopicPartition]:
    """Return the partitions that groups have committed offsets of, each once."""
    by_topic: dict[str, set[int]] = {}
    for offsets in groups:
        for topic in offsets.topics:
            by_topic.setdefault(topic.topic, set()).update(topic.flat_rows()[0::3])
    return [TopicPartition(topic, number) for topic, numbers in by_topic.items() for number in sorted(numbers)]
