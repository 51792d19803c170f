"""A group is deleted by a young reading only: however long reading, journal and requests take."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.deletion.chunk_reader import ChunkReader, ChunkReading
from airflow_kafka_groups.change.deletion.delete_by_plan import delete_by_plan
from airflow_kafka_groups.change.deletion.request import DeletionLimits
from airflow_kafka_groups.kafka.cluster import clock
from airflow_kafka_groups.ledger.journal.journal import RunJournal, read_history
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID
from tests.unit.change.deletion.steps import cluster, delete, fates
from tests.unit.change.scene import backed_up, layout_in, request


class Clock:
    """A monotonic clock that moves only when it is told to."""

    def __init__(self) -> None:
        self.value = 0.0

    def __call__(self) -> float:
        return self.value


def slow(admin: FakeAdmin, clock: Clock, call: str, *seconds: float) -> None:
    """Let calls of one kind take so long, one after the other."""
    took = list(seconds)

    def before(name: str) -> None:
        if name == call and took:
            clock.value += took.pop(0)

    admin.before = before


async def test_a_reading_that_got_old_is_made_again(tmp_path: Path) -> None:
    admin = cluster("a")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    admin.calls.clear()
    clock = Clock()
    slow(admin, clock, "describe", 16, 14)
    report = await delete(admin, layout, plan, monotonic=clock)
    expected = ["list", "describe", "stable offsets", "describe", "stable offsets", "delete"]
    assert admin.call_names[: len(expected)] == expected
    assert fates(report) == {"a": "deleted:safe"}


@pytest.mark.promise(7)
async def test_a_reading_that_is_always_old_keeps_the_groups(tmp_path: Path) -> None:
    admin = cluster("a", "b")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    admin.commit("b", "t", 0, 7)
    clock = Clock()
    slow(admin, clock, "describe", 16, 16)
    report = await delete(admin, layout, plan, monotonic=clock)
    assert fates(report) == {"a": "kept:too_slow", "b": "kept:moved"}
    assert admin.asked("delete") == []


@pytest.mark.promise(7)
async def test_the_time_that_the_journal_takes_counts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = cluster("a")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    clock = Clock()
    intend = RunJournal.intend

    def slowly(self: RunJournal, *args: Any, **more: Any) -> None:
        intend(self, *args, **more)
        clock.value += 16

    monkeypatch.setattr(RunJournal, "intend", slowly)
    report = await delete(admin, layout, plan, monotonic=clock)
    assert fates(report) == {"a": "kept:too_slow"}
    assert admin.asked("delete") == []
    assert read_history(layout, CLUSTER_ID).deletions() == {}, "an intent that was not sent deleted nothing"


@pytest.mark.promise(7)
async def test_what_is_left_of_the_reading_s_age_goes_down_to_the_client(tmp_path: Path) -> None:
    admin = cluster("a")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    clock = Clock()
    slow(admin, clock, "stable offsets", 6)
    await delete(admin, layout, plan, monotonic=clock)
    assert admin.send_within == [9.0]


def test_the_age_of_a_reading_counts_the_sleep_of_the_machine() -> None:
    """``time.monotonic`` stands still in suspend: a laptop that wakes up would delete by what it read yesterday."""
    assert request().monotonic is clock.now


async def test_a_reading_that_grew_old_while_it_waited_costs_no_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was in time, and only the chunk before it took long: so it may be made again twice."""
    admin = cluster("a", "b")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    clock, ahead = Clock(), asyncio.Event()
    seconds = {"describe": [0, 0, 16, 0], "delete": [16, 0]}
    read, delete_groups, readings = ChunkReader.read, admin.delete_consumer_groups, list[ChunkReading]()

    async def noted(reader: ChunkReader, chunk: Any) -> ChunkReading:
        readings.append(await read(reader, chunk))
        if len(readings) == 2:
            ahead.set()
        return readings[-1]

    async def after_that(group_ids: Any, **how: Any) -> Any:
        await ahead.wait()
        return await delete_groups(group_ids, **how)

    def before(name: str) -> None:
        clock.value += seconds[name].pop(0) if seconds.get(name) else 0

    monkeypatch.setattr(ChunkReader, "read", noted)
    monkeypatch.setattr(admin, "delete_consumer_groups", after_that)
    admin.before = before
    report = await delete(admin, layout, plan, monotonic=clock, chunk_size=1)
    assert sorted(fates(report).values()) == ["deleted:safe", "deleted:safe"]
    assert seconds == {"describe": [], "delete": []}


async def test_a_deletion_waits_for_its_pace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = cluster("a", "b", "c")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    clock, slept = Clock(), list[float]()
    sleep = asyncio.sleep

    async def instantly(seconds: float) -> None:
        clock.value += seconds
        slept.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", instantly)
    limits = DeletionLimits(chunk_size=1, groups_per_second=0.5)
    for dry_run, seconds in ((True, 0.0), (False, 4.0)):
        slept.clear()
        asked = replace(request(dry_run=dry_run, monotonic=clock), limits=limits)
        await delete_by_plan(admin, layout, plan.plan_id, plan.digest, asked)
        assert sum(slept) == seconds, "two chunks wait for the one before them, and a dry run for nothing"
    assert admin.groups == {}
