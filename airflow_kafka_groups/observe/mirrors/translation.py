"""Where a committed offset of a source partition is in the mirror of that partition, without any I/O.

Mirrors keep the order of records and lose their offsets. The *position* of a source offset is the offset in the mirror
from which exactly those records follow that follow it in the source. Every method yields bounds, and the choice picks
one of them. Mirrors write at least once: after a restart, records come again, in order. From each copy of a record on,
all later ones follow, so any copy is safe.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from struct import Struct
from struct import error as StructError
from typing import TypeAlias

from airflow_kafka_groups.exceptions import MaintenanceError
from airflow_kafka_groups.kafka.models import ListedOffset, TopicPartition


class Method(StrEnum):
    """What an offset is translated by."""

    HEADER = "header"  # each record of the mirror names its source offset (Redpanda's migrator)
    OFFSET_SYNCS = "offset-syncs"  # MirrorMaker 2's pairs of offsets: the record of one is the other
    CHECKPOINTS = "checkpoints"  # MirrorMaker 2's translated commits: none is behind its position
    PAYLOAD = "payload"  # the first record that is left to read, found by its time, and by the hash of key and value
    TIMESTAMP = "timestamp"  # the first record of the same time; timestamps may repeat, and need not grow


class Position(StrEnum):
    """Which of the bounds a group is set to. ``AT_OR_BEFORE`` never skips a record."""

    EXACT = "exact"
    AT_OR_BEFORE = "at-or-before"
    AT_OR_AFTER = "at-or-after"


Refusal: TypeAlias = str
"""Why a position is not known well enough."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between which offsets of the mirror a position is.

    :param high: the last offset that it can be, or where ``is_sure`` is false, as far as it is known.
    :param most: the most records that are read twice from ``low`` on, also of those that the mirror has yet to write.
        Default: those up to ``high``.
    """

    low: int
    high: int
    most: int | None = None
    is_sure: bool = True


@dataclass(frozen=True, slots=True)
class Translated:
    """An offset in the mirror.

    :param distance: the most records that are read twice, or with ``AT_OR_AFTER`` skipped. Markers count.
    """

    offset: int
    distance: int


def choose(bounds: Bounds, position: Position, start: int, end: int) -> Translated | Refusal:
    """Return the offset that a group is set to.

    :param start: the log start of the mirror, and ``end`` its log end.
    """
    low, high = bounds.low, bounds.high
    if low < start:
        return f"the target's log starts at {start:,}, and the position is at or after {low:,}: records are lost"
    if low > end:
        return f"the position is at or after {low:,}, beyond the target's log end {end:,}: was it recreated?"
    twice = high - low if bounds.most is None else bounds.most
    if position is Position.AT_OR_BEFORE:
        return Translated(low, twice)
    if (low < high or twice) and (position is Position.EXACT or not bounds.is_sure):
        where = f"between {low:,} and {high:,}" if bounds.is_sure and low < high else f"at or after {low:,}"
        return f"it is not known exactly: the position is {where}"
    return Translated(high, high - low)


@dataclass(frozen=True, slots=True)
class Mark:
    """A pair of offsets: the record ``source`` of the source is ``target`` in the mirror.

    :param is_exact: otherwise, ``target`` is at or before that record.
    """

    source: int
    target: int
    is_exact: bool = True


def ordered(marks: Iterable[Mark]) -> list[Mark]:
    """Return marks in order that were written in time, without those that a later one contradicts.

    A mirror that is restarted reads some records again: earlier marks of these are older copies. A topic that was
    recreated begins at 0 again: in the source nothing that was known is left, and in the mirror neither.
    """
    kept: list[Mark] = []
    for mark in marks:
        if kept and mark.target < kept[-1].target:
            kept.clear()
        while kept and kept[-1].source >= mark.source:
            kept.pop()
        kept.append(mark)
    return kept


def by_marks(marks: Sequence[Mark], offset: int, end: int) -> Bounds | Refusal:
    """Return the bounds of a position by marks in order.

    :param end: the log end of the mirror.
    """
    at = bisect_right(marks, offset, key=attrgetter("source")) - 1
    if at < 0:
        known = f"the first one is of {marks[0].source:,}" if marks else "there are none"
        return f"no pair of offsets at or before {offset:,} is known: {known}"
    before = marks[at]
    if before.is_exact and before.source == offset:
        return Bounds(before.target, before.target)
    # The record of an exact pair was read: what is left begins behind it.
    low = before.target + before.is_exact
    if not before.is_exact:
        return Bounds(low, max(end, low), most=max(end - low, 0) + offset - before.source)
    most = offset - before.source - 1  # of each that is read twice, the source offset is in between
    if at + 1 == len(marks):
        return Bounds(low, max(end, low), most=most)
    high = max(marks[at + 1].target, low)
    return Bounds(low, high, most=min(most, high - low))


_SHORT, _INT, _OFFSETS = Struct(">h"), Struct(">i"), Struct(">qq")
Marks = dict[TopicPartition, list[Mark]]
Records = Iterable[tuple[bytes | None, bytes | None]]
"""Keys and values."""


def read_syncs(records: Records, topic: str) -> Marks:
    """Return the pairs of an offset-syncs topic, by the partition of the source. Raises ``MaintenanceError``.

    The key is the topic as a string16 and the partition, the value both offsets.
    """
    found: defaultdict[TopicPartition, list[Mark]] = defaultdict(list)
    for (name,), partition, pair in _read(records, topic, "offset sync", names=1, version=0):
        found[TopicPartition(name, partition)].append(Mark(*pair))
    return {where: ordered(marks) for where, marks in found.items()}


def read_checkpoints(records: Records, topic: str) -> Marks:
    """Return the pairs of a checkpoints topic, by the partition of the mirror, of all groups together.

    What is known of one group's position is known of the offset. The key is a version, the group, the topic and the
    partition, the value a version, both offsets and more. Raises ``MaintenanceError`` for another topic's records.
    """
    latest: dict[tuple[str, TopicPartition], Mark] = {}
    for (group_id, name), partition, pair in _read(records, topic, "checkpoint", names=2, version=_SHORT.size):
        latest[group_id, TopicPartition(name, partition)] = Mark(*pair, is_exact=False)
    found: defaultdict[TopicPartition, dict[int, Mark]] = defaultdict(dict)
    for (_, where), mark in latest.items():
        known = found[where].setdefault(mark.source, mark)
        if mark.target > known.target:
            found[where][mark.source] = mark
    return {where: [marks[source] for source in sorted(marks)] for where, marks in found.items()}


def _read(
    records: Records, topic: str, what: str, *, names: int, version: int
) -> Iterator[tuple[list[str], int, tuple[int, int]]]:
    """Yield the names and the partition in each key, and the offsets in its value.

    :param names: the number of strings in a key.
    :param version: the bytes of the version before them, and before the offsets.
    """
    for key, value in records:
        if key is None or value is None:
            continue
        try:
            found, at = list[str](), version
            for _ in range(names):
                (length,) = _SHORT.unpack_from(key, at)
                at += _SHORT.size + length
                found.append(key[at - length : at].decode())
            (partition,) = _INT.unpack(key[at:])
            source, target = _OFFSETS.unpack_from(value, version) if version else _OFFSETS.unpack(value)
        except (StructError, UnicodeDecodeError) as error:
            raise MaintenanceError(f"a record of {topic} is no {what} of MirrorMaker 2: {error}") from None
        yield found, partition, (source, target)


@dataclass(frozen=True, slots=True)
class Anchor:
    """The record of the source that a position is found by: the next one to be read, or else the last one before it.

    :param is_next: whether it is the next one. Otherwise nothing is left to be read.
    """

    offset: int
    timestamp: int
    digest: bytes
    is_next: bool = True


@dataclass(frozen=True, slots=True)
class RecordsOfATime:
    """Records in order, from the first one of a time on.

    :param is_end: whether nothing follows them.
    """

    records: Sequence[Anchor]
    is_end: bool

    def alike(self, anchor: Anchor) -> list[int]:
        """Return the offsets of the records that are like an anchor in time, key and value."""
        time_ms, digest = anchor.timestamp, anchor.digest
        return [each.offset for each in self.records if each.timestamp == time_ms and each.digest == digest]

    def is_cut(self, anchor: Anchor) -> bool:
        """Return whether the records of the anchor's time go on."""
        return not self.is_end and self.records[-1].timestamp == anchor.timestamp


def by_payload(anchor: Anchor, here: RecordsOfATime, there: RecordsOfATime) -> Bounds | Refusal:
    """Return the bounds of a position by the records that are like its anchor.

    :param here: records of the source from the anchor's time on, and ``there`` of the mirror.
    """
    if not there.records:
        return _is_behind(anchor)
    copies, twins = there.alike(anchor), here.alike(anchor)
    if here.is_cut(anchor) or there.is_cut(anchor):
        return f"more than {len(here.records):,} records are of the millisecond {anchor.timestamp}"
    if len(copies) < max(len(twins), 1):
        like = "" if len(twins) < 2 else f", or one of {len(twins):,} like it"
        return f"record {anchor.offset:,} of the source{like} is not in the target at {anchor.timestamp} ms"
    behind = 0 if anchor.is_next else 1
    return Bounds(copies[0] + behind, copies[-1] + behind)  # of several, nobody knows which is whose copy


def _is_behind(anchor: Anchor) -> Refusal:
    return f"the target has no record of {anchor.timestamp} ms or later: the mirror is behind"


def by_timestamp(anchor: Anchor, here: ListedOffset, there: ListedOffset) -> Bounds | Refusal:
    """Return the bounds of a position by the first records of the anchor's time or later.

    Between the first one in the source and the anchor are as many records as may be read twice, whether timestamps
    grow or not. If they do not, the anchor must have been mirrored: ``payload`` would find that out.

    :param here: the first one in the source, and ``there`` in the mirror; their offset is -1 where there is none.
    """
    in_target = there.offset
    if in_target < 0:
        return _is_behind(anchor)
    if there.timestamp != anchor.timestamp or here.offset < 0:
        why = "the mirror does not keep timestamps, or lacks the record"
        return f"the target's first record of {anchor.timestamp} ms or later is of {there.timestamp} ms: {why}"
    distance = anchor.offset - here.offset
    if distance <= 0:
        low = in_target + (not anchor.is_next)
        return Bounds(low, low)
    return Bounds(in_target, in_target + distance + (not anchor.is_next), is_sure=False)


class HeaderSearch:
    """The search for a position in a mirror whose records name their source offsets.

    Read from ``next_offset`` what ``feed`` is to be given, until ``result`` is there. It halves what is left, or
    guesses by the offsets that it knows, in turn.

    :param offset: the committed offset of the source.
    :param first_left: the first offset from it on that the source may have a record of.
    :param start: the log start of the mirror, and ``end`` its log end.
    :param window: how many records are read at once.
    """

    def __init__(self, offset: int, first_left: int, start: int, end: int, window: int) -> None:
        self.result: Bounds | Refusal | None = None
        self.next_offset = start
        self._offset, self._first_left, self._window = offset, first_left, window
        self._low, self._high = start, end
        self._found: int | None = None
        self._known: Mark | None = None
        self._turn = 0

    def feed(self, records: Sequence[tuple[int, int | None]], *, is_end: bool) -> None:
        """Take records from ``next_offset`` on: the offset of each, and that of the source which it names.

        :param is_end: whether the log ends behind them.
        """
        named = [(where, source) for where, source in records if source is not None]
        if len(named) < len(records):
            lacking = next(where for where, source in records if source is None)
            self.result = f"the target's record {lacking:,} does not name its source offset"
            return
        at = next((number for number, (_, source) in enumerate(named) if source >= self._offset), len(named))
        if not named:
            self._high = self.next_offset  # and nothing can be read from there on
        elif 0 < at < len(named):
            self._found = self._low = self._high = named[at][0]
        elif at:
            self._low, self._known = named[-1][0] + 1, Mark(named[-1][1], named[-1][0])
            self._high = max(self._low, self._high) if not is_end else self._low
        elif self.next_offset <= self._low and self._known is None and named[0][1] > self._first_left:
            first = f"the target's first record is {named[0][1]:,} of the source"
            self.result = f"{first}, and {self._offset:,} is left to be read: it was not mirrored, or is lost"
            return
        else:
            self._high, self._found = self.next_offset, named[0][0]
        if self._low < self._high:
            self.next_offset = self._guess()
        elif self._found is not None:
            self.result = Bounds(self._found, self._found)
        elif self._known is None:
            self.result = "the target has no record there: the mirror is behind, or they are lost"
        else:  # at the end, where it may still write some
            self.result = Bounds(self._low, self._low, most=self._offset - self._known.source - 1)

    def _guess(self) -> int:
        self._turn += 1
        at = (self._low + self._high) // 2
        if self._turn % 2 and self._known is not None:
            at = self._known.target + (self._offset - self._known.source) - self._window // 2
        return min(max(at, self._low), self._high - 1)
