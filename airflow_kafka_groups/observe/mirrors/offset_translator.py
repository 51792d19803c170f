"""What is read of both clusters to translate offsets: log ends, records, times, and the mirror's own topics.

What is kept of a record is its offset, its time and a hash.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError
from airflow_kafka_groups.kafka.models import ListedOffset, OffsetSpec, TopicPartition
from airflow_kafka_groups.kafka.records import LogRecord, Span
from airflow_kafka_groups.observe.log_ends import Ends, left_out, log_ends
from airflow_kafka_groups.observe.mirrors.translation import (
    Anchor,
    Bounds,
    HeaderSearch,
    Marks,
    Method,
    Position,
    RecordsOfATime,
    Refusal,
    Translated,
    by_marks,
    by_payload,
    by_timestamp,
    choose,
    read_checkpoints,
    read_syncs,
)
from airflow_kafka_groups.storage.layout import Progress

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient

OFFSET_HEADER = "redpanda-migrator-offset"
"""The header of Redpanda's migrator: the source offset, as 8 bytes."""
_WINDOW = 200
"""Records of the target that are read at once."""
_BEFORE = 200
"""How far before a log's end its last record is looked for: markers and compaction leave gaps."""
_OF_A_TIME = 1_000
"""Records from a time on, among which a payload is looked for."""
_BATCH = 5_000
_ROUNDS_AT_ONCE = 16

Place = tuple[TopicPartition, int]
"""A partition of the source, and an offset."""
OfTime = tuple[TopicPartition, int]
"""A partition of either cluster, and a time in milliseconds."""
OfTimes = Iterable[OfTime]
Found = dict[Place, Bounds | Refusal]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetTranslator:
    """How offsets are translated.

    :param source: the source's client; ``None`` where there is only a backup, which header and marks can do with.
    :param counterparts: the partition of the target for each of the source.
    :param mirror_topic: the topic of MirrorMaker 2's pairs of offsets.
    :param progress: called with (stage, done, total).
    """

    source: MaintenanceClient | None
    target: MaintenanceClient
    counterparts: Mapping[TopicPartition, TopicPartition]
    header: str = OFFSET_HEADER
    mirror_topic: str | None = None
    progress: Progress

    async def translate(
        self, places: Iterable[Place], method: Method, position: Position
    ) -> dict[Place, Translated | str]:
        """Translate offsets of the source, each to one of the target, or to the reason why it is refused."""
        wanted = sorted(set(places))
        source_ends = await log_ends(self.source, (where for where, _ in wanted)) if self.source is not None else {}
        target_ends = await log_ends(self.target, (self.counterparts[where] for where, _ in wanted))
        found: Found = {}
        for place in wanted:
            if (why := self._refusal(place, source_ends, target_ends)) is not None:
                found[place] = why
        left = [place for place in wanted if place not in found]
        by: Callable[[Sequence[Place], Ends, Ends], Awaitable[Found]]
        if method in (Method.OFFSET_SYNCS, Method.CHECKPOINTS):
            by = partial(self._by_marks, await self._marks(method) if left else {}, method)
        elif method is Method.HEADER:
            by = self._by_header
        elif method is Method.PAYLOAD:
            by = partial(self._compared, _windows, by_payload)
        else:
            by = partial(self._compared, _times, by_timestamp)
        for batch in _batches(left, _BATCH):
            found |= await by(batch, source_ends, target_ends)
            self.progress("translate", len(found), len(wanted))
        bounds = {where: _bounds(target_ends, there) for where, there in self.counterparts.items()}
        return {
            place: each if isinstance(each, str) else choose(each, position, *bounds[place[0]])
            for place, each in ((place, found[place]) for place in wanted)
        }

    def _refusal(self, place: Place, source_ends: Ends, target_ends: Ends) -> str | None:
        where, offset = place
        for ends in (target_ends[self.counterparts[where]], source_ends.get(where)):
            if isinstance(ends, str):
                return ends
        if self.source is not None and offset > (end := _bounds(source_ends, where)[1]):
            return f"offset {offset:,} is beyond the source's log end {end:,}: the topic was recreated"
        return None

    async def _marks(self, method: Method) -> Marks:
        """Read the mirror's own topic, where it exists: in the source, or else in the target."""
        topic = self.mirror_topic
        if topic is None:
            raise ConfigurationError("mirror_topic", None, f"name the topic of MirrorMaker 2 for {method.value}")
        read = read_syncs if method is Method.OFFSET_SYNCS else read_checkpoints
        for cluster in (self.source, self.target):
            if cluster is None or not (count := (await counts_of(cluster, [topic])).get(topic)):
                continue
            parts = [TopicPartition(topic, number) for number in range(count)]
            starts = {at: each[0] for at, each in (await log_ends(cluster, parts)).items() if not isinstance(each, str)}
            spans = [Span(where=where, start=start) for where, start in starts.items()]
            records = await cluster.read_records(spans, lambda each: (each.key, each.value))
            return read([each for span in records for each in span.records], topic)
        raise ConfigurationError("mirror_topic", topic, "exists in neither cluster, or this user may not see it")

    async def _by_marks(
        self, marks: Marks, method: Method, places: Sequence[Place], source_ends: Ends, target_ends: Ends
    ) -> Found:
        found: Found = {}
        for where, offset in places:
            there = self.counterparts[where]
            key = where if method is Method.OFFSET_SYNCS else there
            found[where, offset] = by_marks(marks.get(key, []), offset, _bounds(target_ends, there)[1])
        return found

    async def _by_header(self, places: Sequence[Place], source_ends: Ends, target_ends: Ends) -> Found:
        searches: dict[Place, HeaderSearch] = {}
        for where, offset in places:
            first_left = max(offset, _bounds(source_ends, where)[0])
            bounds = _bounds(target_ends, self.counterparts[where])
            searches[where, offset] = HeaderSearch(offset, first_left, *bounds, _WINDOW)
        while left := {place: search for place, search in searches.items() if search.result is None}:
            asked = list(dict.fromkeys((self.counterparts[where], left[where, at].next_offset) for where, at in left))
            spans = [Span(where=there, start=start, most=_WINDOW) for there, start in asked]
            read = dict(zip(asked, await self.target.read_records(spans, self._named), strict=True))
            for (where, _), search in left.items():
                window = read[self.counterparts[where], search.next_offset]
                search.feed(window.records, is_end=window.is_end)
        return {place: search.result for place, search in searches.items() if search.result is not None}

    def _named(self, record: LogRecord) -> tuple[int, int | None]:
        value = next((value for name, value in reversed(record.headers) if name == self.header), None)
        if value is None:
            return record.offset, None
        if len(value) == 8:
            return record.offset, int.from_bytes(value, "big")
        return record.offset, int(value) if value.isdigit() else None  # as other mirrors write it

    async def _compared(
        self,
        read: Callable[[MaintenanceClient, OfTimes], Awaitable[Mapping[OfTime, Any]]],
        compare: Callable[[Anchor, Any, Any], Bounds | Refusal],
        places: Sequence[Place],
        source_ends: Ends,
        target_ends: Ends,
    ) -> Found:
        """Compare what is read of both clusters for the times of the records by which offsets are found."""
        if self.source is None:
            raise ConfigurationError("method", None, "needs the source cluster, whose records it reads: name it, too")
        anchors, found = await _anchors(self.source, places, source_ends)
        here = await read(self.source, {(at[0], of.timestamp) for at, of in anchors.items()})
        there = await read(self.target, {(self.counterparts[at[0]], of.timestamp) for at, of in anchors.items()})
        for place, anchor in anchors.items():
            before, after = here[place[0], anchor.timestamp], there[self.counterparts[place[0]], anchor.timestamp]
            if isinstance(error := before, KafkaGroupsError) or isinstance(error := after, KafkaGroupsError):
                found[place] = left_out(f"the offset for the timestamp cannot be read: {error}", error)
            else:
                found[place] = compare(anchor, before, after)
        return found


async def _windows(admin: MaintenanceClient, wanted: OfTimes) -> dict[OfTime, RecordsOfATime | KafkaGroupsError]:
    """Read records from each time on."""
    found: dict[OfTime, RecordsOfATime | KafkaGroupsError] = {}
    spans: dict[OfTime, Span] = {}
    for key, listed in (await _times(admin, wanted)).items():
        if isinstance(listed, KafkaGroupsError):
            found[key] = listed
        elif listed.offset < 0:
            found[key] = RecordsOfATime([], is_end=True)
        else:
            spans[key] = Span(where=key[0], start=listed.offset, most=_OF_A_TIME)
    read = zip(spans, await admin.read_records(list(spans.values()), _hashed), strict=True)
    return found | {key: RecordsOfATime(each.records, each.is_end) for key, each in read}


async def _times(admin: MaintenanceClient, wanted: OfTimes) -> dict[OfTime, ListedOffset | KafkaGroupsError]:
    """Ask for each time of each partition once. Brokers take one time of a partition in a request."""
    of_partition: dict[TopicPartition, list[int]] = {}
    for where, time_ms in wanted:
        of_partition.setdefault(where, []).append(time_ms)
    rounds = [
        {where: times[number] for where, times in of_partition.items() if number < len(times)}
        for number in range(max(map(len, of_partition.values()), default=0))
    ]
    found: dict[OfTime, ListedOffset | KafkaGroupsError] = {}

    async def ask(asked: Mapping[TopicPartition, int]) -> None:
        specs = {where: OffsetSpec.for_timestamp(time_ms) for where, time_ms in asked.items()}
        for where, listed in (await admin.list_offsets(specs)).items():
            found[where, asked[where]] = listed

    for some in _batches(rounds, _ROUNDS_AT_ONCE):
        await asyncio.gather(*map(ask, some))
    return found


async def _anchors(source: MaintenanceClient, places: Sequence[Place], ends: Ends) -> tuple[dict[Place, Anchor], Found]:
    """Return the record by which each offset is found, or why there is none."""
    anchors: dict[Place, Anchor] = {}
    found: Found = {}
    next_ones, last_ones = list[Place](), list[Place]()
    for place in places:
        where, offset = place
        start, end = _bounds(ends, where)
        if offset < start:
            lost = f"the source has lost the records from {offset:,} to {start:,}, and the target may have them"
            found[place] = f"{lost}: translate by header or offset-syncs"
        else:
            (next_ones if offset < end else last_ones).append(place)
    spans = [Span(where=where, start=offset, until=offset) for where, offset in next_ones]
    for place, window in zip(next_ones, await source.read_records(spans, _hashed), strict=True):
        if window.records:
            anchors[place] = window.records[0]
        else:
            last_ones.append(place)
    starts = [max(offset - _BEFORE, _bounds(ends, where)[0]) for where, offset in last_ones]
    spans = [Span(where=at[0], start=start, until=at[1]) for at, start in zip(last_ones, starts, strict=True)]
    for place, window in zip(last_ones, await source.read_records(spans, _hashed), strict=True):
        if before := [each for each in window.records if each.offset < place[1]]:
            anchors[place] = replace(before[-1], is_next=False)
        else:
            found[place] = "the source has no record behind it, and none shortly before it"
    return anchors, found


async def counts_of(admin: MaintenanceClient, topics: Iterable[str]) -> Mapping[str, int]:
    """Return the number of partitions of each topic that exists and that this user may describe."""
    wanted = sorted(set(topics))
    return (await admin.authorized_operations(wanted)).partition_counts if wanted else {}


def _hashed(record: LogRecord) -> Anchor:
    digest = blake2b(digest_size=16)
    for part in (record.key, record.value):
        digest.update(b"-" if part is None else b"%d:" % len(part) + part)
    return Anchor(record.offset, record.timestamp, digest.digest())


def _bounds(ends: Ends, where: TopicPartition) -> tuple[int, int]:
    return bounds if isinstance(bounds := ends.get(where), tuple) else (0, 0)


def _batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))
