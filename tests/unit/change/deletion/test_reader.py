"""A chunk: each group is decided by its own answers and by a clock from before the questions."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.deletion.chunk_loop import delete_safe, outcome_of
from airflow_kafka_groups.change.deletion.chunk_reader import ChunkReader, ChunkReading
from airflow_kafka_groups.change.deletion.request import DeletionLimits
from airflow_kafka_groups.change.deletion.run import delete_by_plan
from airflow_kafka_groups.exceptions import BrokerError, KafkaGroupsError, NotSentError, OutcomeUnknownError
from airflow_kafka_groups.kafka.cluster import clock
from airflow_kafka_groups.kafka.models import ShareGroupOffsets
from airflow_kafka_groups.ledger.journal import RunJournal, read_history
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Outcome, Reason, kept
from airflow_kafka_groups.ledger.plan_rows import Target
from airflow_kafka_groups.observe.fingerprint import fingerprint
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, FakeGroup, broker_error, offsets_of, timeout
from tests.fakes.lease import at_once
from tests.unit.change.deletion.steps import cluster, delete, fates
from tests.unit.change.scene import backed_up, layout_in, request

PRINT = fingerprint(offsets_of("a", ("t", 0, 1)))
CHUNK = [
    Target(group_id=name, group_type="classic", protocol_type=FakeGroup().protocol_type, fingerprint=PRINT)
    for name in ("a", "b")
]
ENTRIES = {
    name: Target(group_id=name, group_type="classic", protocol_type="", partitions=1, fingerprint=PRINT)
    for name in ("a", "b")
}


async def reader(admin: FakeAdmin, excluded: dict[str, GroupOutcome] | None = None) -> ChunkReader:
    for name in ("a", "b"):
        admin.add(name, ("t", 0, 1))
    clock = [100.0]

    def later(call: str) -> None:
        clock[0] += 2.0

    listings = await admin.list_groups()
    admin.before = later
    return ChunkReader(admin, listings, ENTRIES, excluded or {}, 15.0, lambda: clock[0])


async def test_what_is_safe_is_told_from_what_is_held() -> None:
    admin = FakeAdmin()
    reading_of = await reader(admin)
    admin.groups["b"].members = 1
    reading = await reading_of.read(CHUNK)
    assert (list(reading.safe), [group.group_id for group in reading.expected]) == (["a"], ["a"])
    assert [(item.group_id, item.code) for item in reading.held] == [("b", "has_members")]
    assert fingerprint(reading.safe["a"]) == PRINT


async def test_offsets_are_read_after_the_description_whose_broker_will_be_asked_to_delete() -> None:
    """Read before it, they could be those of a coordinator that was replaced in between, without its knowledge."""
    admin = FakeAdmin()
    reading_of = await reader(admin)
    admin.groups["b"].coordinator = 2
    admin.forget_calls()
    reading = await reading_of.read(CHUNK)
    assert admin.call_names == ["describe", "stable offsets"]
    assert reading.coordinators == {"a": 1, "b": 2}


async def test_the_clock_runs_from_before_the_first_question() -> None:
    reading = await (await reader(FakeAdmin())).read(CHUNK)
    assert (reading.send_by, reading.read_at) == (115.0, 104.0)


async def test_a_group_that_is_excluded_is_held_and_its_life_is_the_better_reason() -> None:
    admin = FakeAdmin()
    before = {name: kept(name, Reason.DELETED_BEFORE, "deleted before") for name in ("a", "b")}
    reading_of = await reader(admin, before)
    admin.groups["b"].members = 1
    reading = await reading_of.read(CHUNK)
    assert [item.code for item in reading.held] == ["deleted_before", "has_members"]


async def test_a_reading_that_fails_is_an_error() -> None:
    admin = FakeAdmin()
    reading_of = await reader(admin)

    def fail(call: str) -> None:
        raise timeout()

    admin.before = fail
    with pytest.raises(KafkaGroupsError):
        await reading_of.read(CHUNK)


async def test_a_group_that_moves_to_another_broker_after_its_reading_is_not_deleted_there() -> None:
    """What was read may be what a broker knew that had been replaced: the new coordinator knows what happened since."""
    admin = FakeAdmin()
    reading = await (await reader(admin)).read(CHUNK)
    admin.groups["b"].coordinator = 2
    results = await delete_safe(admin, reading, 15.0, at_once)
    assert results["a"].ok
    error = results["b"].error
    assert isinstance(error, BrokerError)
    assert error.name == "NOT_COORDINATOR"
    assert set(admin.groups) == {"b"}
    # Kafka 4 answers so, too, when a coordinator is replaced that has just written: the verification decides.
    assert outcome_of("b", reading.safe["b"], error).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (broker_error("NON_EMPTY_GROUP"), Outcome.UNKNOWN),  # a member joined after its positions were deleted
        (broker_error("COORDINATOR_LOAD_IN_PROGRESS"), Outcome.UNKNOWN),
        (broker_error("INVALID_REQUEST"), Outcome.UNKNOWN),
        (NotSentError("DeleteGroups could not leave in time"), Outcome.UNKNOWN),  # a try before may have left
        (OutcomeUnknownError("the answer was lost"), Outcome.UNKNOWN),
        (broker_error("GROUP_ID_NOT_FOUND"), Outcome.GONE),
    ],
)
def test_a_share_group_may_have_lost_its_start_offsets_whatever_error_its_deletion_has(
    error: KafkaGroupsError, expected: Outcome
) -> None:
    starts = ShareGroupOffsets("s", offsets_of("s", ("t", 0, 5)).topics)
    found = outcome_of("s", starts, error)
    assert (found.outcome, "restore" in found.reason) == (expected, expected is Outcome.UNKNOWN)


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
