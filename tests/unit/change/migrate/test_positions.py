"""What an offset promises, for any mirror: nothing is skipped, and no more is read twice than was announced."""

import struct
from dataclasses import dataclass

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.kafka.records import LogRecord
from airflow_kafka_groups.observe.mirrors.offset_translator import OffsetTranslator
from airflow_kafka_groups.observe.mirrors.translation import Method, Position, Translated
from airflow_kafka_groups.storage.layout import ignore_progress
from tests.fakes.mirrors import RecordedAdmin, record

HERE, THERE, SYNCS = TopicPartition("orders", 0), TopicPartition("west.orders", 0), TopicPartition("syncs", 0)


@dataclass
class Mirrored:
    """A source, and its mirror: what was copied, at which offset."""

    source: list[LogRecord]
    start: int
    end: int
    copies: list[tuple[int, int]]
    target_end: int
    syncs: list[tuple[int, int]]

    def admins(self) -> tuple[RecordedAdmin, RecordedAdmin]:
        of = {each.offset: each for each in self.source}
        mirrored = [
            LogRecord(at, of[offset].timestamp, of[offset].key, of[offset].value, record(0, 0, "", offset).headers)
            for offset, at in self.copies
        ]
        key = struct.pack(">h6si", 6, b"orders", 0)
        syncs = [LogRecord(at, 0, key, struct.pack(">qq", *pair), ()) for at, pair in enumerate(self.syncs)]
        logs = {HERE: (self.start, self.source, self.end), SYNCS: (0, syncs, len(syncs))}
        return RecordedAdmin("source", logs), RecordedAdmin("target", {THERE: (0, mirrored, self.target_end)})


@st.composite
def mirrors(draw: st.DrawFn) -> Mirrored:
    """Draw a log with gaps, and a mirror that may begin later, lack its end, repeat a part, and have markers."""
    start = draw(st.integers(0, 5))
    offsets = sorted(draw(st.sets(st.integers(start, start + 40), min_size=1, max_size=25)))
    times = [draw(st.integers(0, 6)) for _ in offsets]
    if draw(st.booleans()):
        times.sort()
    source = [record(at, ms, str(draw(st.integers(0, 2)))) for at, ms in zip(offsets, times, strict=True)]
    end = offsets[-1] + draw(st.integers(1, 3))
    first = draw(st.integers(0, len(offsets) - 1)) if draw(st.booleans()) else 0
    last = draw(st.integers(first + 1, len(offsets))) if draw(st.booleans()) else len(offsets)
    order = list(range(first, last))
    if draw(st.booleans()):  # the mirror was restarted
        at = draw(st.integers(first, last - 1))
        back = draw(st.integers(first, at))
        order = [*range(first, at + 1), *range(back, last)]
    copies, where = list[tuple[int, int]](), 0
    for number in order:
        where += draw(st.integers(0, 2))  # markers
        copies.append((offsets[number], where))
        where += 1
    syncs = [pair for pair in copies if draw(st.integers(0, 3)) == 0]
    return Mirrored(source, start, end, copies, where + draw(st.integers(0, 2)), syncs)


async def translated(scene: Mirrored, offset: int, method: Method, position: Position) -> Translated | str:
    if method is Method.TIMESTAMP:  # it promises nothing for a record that was not mirrored, if timestamps do not grow
        times = [each.timestamp for each in scene.source]
        assume(times == sorted(times) or len({source for source, _ in scene.copies}) == len(scene.source))
    if method is Method.PAYLOAD:  # or for one with a twin, if the mirror began behind it, and was restarted in between
        once = len({source for source, _ in scene.copies}) == len(scene.copies)
        assume(once or scene.copies[0][0] == scene.source[0].offset)
    source, target = scene.admins()
    evidence = OffsetTranslator(
        source=source, target=target, counterparts={HERE: THERE}, mirror_topic="syncs", progress=ignore_progress
    )
    return (await evidence.translate([(HERE, offset)], method, position))[HERE, offset]


def read_on(scene: Mirrored, offset: int) -> list[int]:
    """Return the source offsets of what a consumer reads from an offset of the mirror on, now and later."""
    last = scene.copies[-1][0]
    left = [each.offset for each in scene.source if each.offset > last]  # the mirror goes on
    return [source for source, at in scene.copies if at >= offset] + left


RECORDS = (Method.HEADER, Method.PAYLOAD, Method.OFFSET_SYNCS, Method.TIMESTAMP)


@pytest.mark.parametrize("method", RECORDS)
@given(scene=mirrors(), data=st.data())
async def test_at_or_before_skips_nothing_and_announces_what_is_read_twice(
    method: Method, scene: Mirrored, data: st.DataObject
) -> None:
    offset = data.draw(st.integers(scene.start, scene.end))
    found = await translated(scene, offset, method, Position.AT_OR_BEFORE)
    if not isinstance(found, Translated):
        assert found
        return
    got = read_on(scene, found.offset)
    mirrored = {source for source, _ in scene.copies} | set(got)
    assert {each for each in mirrored if each >= offset} <= set(got), "a record is skipped"
    restarted = len({source for source, _ in scene.copies}) < len(scene.copies)
    if not restarted:  # what the mirror wrote twice is read twice, whoever reads it
        assert sum(each < offset for each in got) <= found.distance


@pytest.mark.parametrize("method", RECORDS)
@given(scene=mirrors(), data=st.data())
async def test_exact_is_exact(method: Method, scene: Mirrored, data: st.DataObject) -> None:
    offset = data.draw(st.integers(scene.start, scene.end))
    found = await translated(scene, offset, method, Position.EXACT)
    if isinstance(found, Translated):
        assert found.distance == 0
        restarted = len({source for source, _ in scene.copies}) < len(scene.copies)
        got = read_on(scene, found.offset)
        mirrored = {source for source, _ in scene.copies} | set(got)
        assert {each for each in mirrored if each >= offset} <= set(got)
        assert restarted or all(each >= offset for each in got)


@pytest.mark.parametrize("method", RECORDS)
@given(scene=mirrors(), data=st.data())
async def test_at_or_after_reads_nothing_twice(method: Method, scene: Mirrored, data: st.DataObject) -> None:
    offset = data.draw(st.integers(scene.start, scene.end))
    found = await translated(scene, offset, method, Position.AT_OR_AFTER)
    restarted = len({source for source, _ in scene.copies}) < len(scene.copies)
    if isinstance(found, Translated) and not restarted:
        now = [source for source, at in scene.copies if at >= found.offset]
        assert all(each >= offset for each in now)
