"""A deletion keeps what the journal knows: deleted before, possibly deleted, or found in use. Twice is never."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.deletion.guards.exclusions import exclusions, spare
from airflow_kafka_groups.change.keep_alive import KeepAliveRequest, keep_alive
from airflow_kafka_groups.change.restore.change_offsets import ChangeTerms
from airflow_kafka_groups.exceptions import JournalError
from airflow_kafka_groups.kafka.models import GroupState, TopicPartition
from airflow_kafka_groups.ledger.journal import read_history
from airflow_kafka_groups.ledger.records import KeptAlive
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, NOW, FakeGroup, Ticking
from tests.fakes.wanted import want
from tests.unit.change.scene import LATER, backed_up, delete_plan, layout_in

pytestmark = pytest.mark.safety


def joins(admin: FakeAdmin) -> None:
    admin.groups["a"].members = 1
    admin.groups["a"].state = GroupState.STABLE


def leaves(admin: FakeAdmin) -> None:
    admin.groups["a"].members = 0
    admin.groups["a"].state = GroupState.EMPTY


LIVES: list[tuple[str, Callable[[FakeAdmin], object], Callable[[FakeAdmin], object]]] = [
    ("members", joins, leaves),
    ("offsets", lambda admin: admin.commit("a", "t", 0, 7), lambda admin: admin.commit("a", "t", 0, 0)),
]


@pytest.mark.parametrize(("comes", "goes"), [item[1:] for item in LIVES], ids=[item[0] for item in LIVES])
@pytest.mark.promise(6)
async def test_a_group_that_was_found_in_use_is_not_deleted_by_that_plan_any_more(
    tmp_path: Path, comes: Callable[[FakeAdmin], object], goes: Callable[[FakeAdmin], object]
) -> None:
    """The task is cleared at a moment when the group is Empty again, and looks just as it did when it was judged."""
    admin = FakeAdmin()
    admin.add("a", ("t", 0, 0))
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    comes(admin)
    await delete_plan(admin, layout, plan, dry_run=True)
    goes(admin)
    (outcome,) = (await delete_plan(admin, layout, plan)).report.outcomes
    assert (outcome.outcome, outcome.code) == ("kept", "alive_before")
    assert "found it in use" in outcome.reason
    assert "only a new plan may judge it again" in outcome.reason
    assert "a" in admin.groups


@pytest.mark.promise(6)
async def test_for_another_plan_the_idle_time_restarts(tmp_path: Path) -> None:
    admin = FakeAdmin()
    admin.add("a", ("t", 0, 0))
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    joins(admin)
    await delete_plan(admin, layout, plan)
    history = read_history(layout, CLUSTER_ID)
    week = 7 * 86_400.0

    def excluded_after(seconds: float, judged: bool = True) -> set[str]:
        now = LATER + timedelta(seconds=seconds)
        judged_at = now - timedelta(seconds=60) if judged else None
        return set(exclusions(history, "another plan", now=now, judged_at=judged_at, min_idle_seconds={"": week}))

    assert excluded_after(week / 2) == {"a"}
    assert excluded_after(week * 2) == set()
    assert excluded_after(0, judged=False) == set(), "somebody named it, and it is watched first"


@pytest.mark.parametrize("in_use", [True, False], ids=["found in use", "deleted and made again"])
async def test_a_clock_that_is_set_back_during_a_run_makes_nothing_that_it_saw_look_long_ago(
    tmp_path: Path, in_use: bool
) -> None:
    admin, layout, now = FakeAdmin(), layout_in(tmp_path), Ticking(LATER)
    admin.add("a", ("t", 0, 0), members=0)
    plan, _ = await backed_up(admin, layout)

    def set_back(call: str) -> None:
        if call == "describe" and now.value > NOW:
            now.value -= timedelta(days=100)

    admin.before = set_back
    if in_use:
        joins(admin)
    await delete_plan(admin, layout, plan, now=now)
    assert now.value < NOW
    history, judged_at = read_history(layout, CLUSTER_ID), LATER + timedelta(hours=1)
    found = exclusions(history, "another plan", now=judged_at, judged_at=judged_at, min_idle_seconds={"": 7 * 86_400.0})
    assert {name: decision.code for name, decision in found.items()} == {
        "a": "alive_before" if in_use else "deleted_before"
    }
    (run,) = history.runs
    assert run.ended is not None
    assert run.ended["at"] < NOW.isoformat(), "whoever begins next is not held up by a clock that was ahead"


@pytest.mark.parametrize(("later", "deleted"), [(timedelta(minutes=-5), False), (timedelta(days=-40), True)])
async def test_a_plan_spares_a_group_that_was_kept_alive_since(tmp_path: Path, later: timedelta, deleted: bool) -> None:
    admin = FakeAdmin(log=(0, 10))
    admin.add("a", ("t", 0, 0), protocol_type="")
    layout = layout_in(tmp_path)
    at = LATER + later
    request = KeepAliveRequest(group_ids=("a",), observe_seconds=0)
    if at >= NOW:  # after the snapshot; before it, a newer snapshot would show that this clock is behind
        plan, _ = await backed_up(admin, layout)
    kept = await keep_alive(admin, layout, request, ChangeTerms(dry_run=False), now=lambda: at)
    assert kept.counts["kept_alive"] == 1
    if at < NOW:
        plan, _ = await backed_up(admin, layout)
    (outcome,) = (await delete_plan(admin, layout, plan)).report.outcomes
    assert (outcome.outcome == "deleted", "a" not in admin.groups) == (deleted, deleted)
    assert deleted or (outcome.code == "excluded" and "keep-alive" in outcome.reason)


async def test_a_group_that_was_kept_alive_after_its_plan_is_spared_when_that_effect_is_over(tmp_path: Path) -> None:
    """The brokers keep offsets for a minute here, and the plan waits for its approval for longer."""
    admin = FakeAdmin(log=(0, 10))
    admin.add("a", ("t", 0, 0), protocol_type="")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    want(layout, "a", at=LATER, lasts=timedelta(minutes=1))
    now = Ticking(LATER + timedelta(hours=2))
    (outcome,) = (await delete_plan(admin, layout, plan, now=now)).report.outcomes
    assert (outcome.outcome, outcome.code) == ("kept", "excluded")


async def test_a_group_that_is_kept_alive_by_another_folder_of_the_cluster_is_spared(tmp_path: Path) -> None:
    admin = FakeAdmin(log=(0, 10))
    admin.add("a", ("t", 0, 0), protocol_type="")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    request = KeepAliveRequest(group_ids=("a",), observe_seconds=0)
    other = Layout(tmp_path, "prod_by_another_connection")
    await keep_alive(admin, other, request, ChangeTerms(dry_run=False), now=lambda: LATER)
    (outcome,) = (await delete_plan(admin, layout, plan)).report.outcomes
    assert (outcome.outcome, outcome.code) == ("kept", "excluded")


LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
"""By the clock of a run that is behind, its effect is over."""


async def test_a_keep_alive_run_that_begins_during_a_deletion_is_heeded_before_the_next_request(tmp_path: Path) -> None:
    admin, layout = FakeAdmin(log=(0, 10)), layout_in(tmp_path)
    for name in "abcd":
        admin.add(name, ("t", 0, 0), protocol_type="")
    plan, _ = await backed_up(admin, layout)
    first = plan.group_ids[0]
    others, begun = [name for name in plan.group_ids if name != first], list[str]()

    def begin(call: str) -> None:
        if call == "delete" and not begun:
            begun.append(call)
            want(layout, *others[:2], at=LONG_AGO)

    admin.before = begin
    report = (await delete_plan(admin, layout, plan, chunk_size=1)).report
    assert set(admin.groups) == set(others[:2])
    assert report.kept_reasons == {"excluded": 2}
    assert {outcome.reason for outcome in report.outcomes if outcome.code == "excluded"} == {
        "a keep-alive run that began during the deletion wants it to stay"
    }
    (run,) = read_history(layout, CLUSTER_ID).runs
    assert set(run.intents) == {first, others[2]}, "no intent names a group that was spared"


async def test_a_run_recorded_between_reading_and_intent_spares_a_part_of_a_chunk(tmp_path: Path) -> None:
    admin, layout = FakeAdmin(log=(0, 10)), layout_in(tmp_path)
    for name in "ab":
        admin.add(name, ("t", 0, 0), protocol_type="")
    plan, _ = await backed_up(admin, layout)

    def begin(call: str) -> None:
        if call == "describe":
            want(layout, "a", at=LONG_AGO)

    admin.before = begin
    report = (await delete_plan(admin, layout, plan)).report
    assert (set(admin.groups), report.counts["deleted"]) == ({"a"}, 1)


async def test_a_record_that_cannot_be_read_during_a_deletion_stops_it(tmp_path: Path) -> None:
    admin, layout = FakeAdmin(log=(0, 10)), layout_in(tmp_path)
    admin.add("a", ("t", 0, 0), protocol_type="")
    plan, _ = await backed_up(admin, layout)

    def damage(call: str) -> None:
        if call == "describe":
            want(layout, "a", at=LONG_AGO)
            max(tmp_path.glob("_journal/*/log/*.json")).write_text("{")

    admin.before = damage
    with pytest.raises(JournalError, match="damaged"):  # nor can its end be recorded behind that
        await delete_plan(admin, layout, plan)
    assert (admin.deleted, set(admin.groups)) == ([], {"a"})


async def test_a_keep_alive_worker_whose_clock_is_behind_is_heeded(tmp_path: Path) -> None:
    """Its own time would say that the effect of its run was over long before the deletion."""
    admin, layout = FakeAdmin(log=(0, 10)), layout_in(tmp_path)
    admin.add("a", ("t", 0, 0), protocol_type="")
    plan, _ = await backed_up(admin, layout)
    behind = NOW - timedelta(days=400)
    request = KeepAliveRequest(group_ids=("a",), observe_seconds=0)
    await keep_alive(admin, layout, request, ChangeTerms(dry_run=False), now=lambda: behind)
    (outcome,) = (await delete_plan(admin, layout, plan)).report.outcomes
    assert (outcome.outcome, outcome.code) == ("kept", "excluded")


@pytest.mark.parametrize("facts", [{"members": 1}, {"protocol_type": "consumer"}], ids=["in use", "needs a membership"])
async def test_a_group_that_a_keep_alive_run_left_alone_is_spared(tmp_path: Path, facts: dict[str, Any]) -> None:
    admin, layout = FakeAdmin(log=(0, 10)), layout_in(tmp_path)
    admin.add("a", ("t", 0, 0), protocol_type="consumer")
    plan, _ = await backed_up(admin, layout)
    admin.groups["a"] = FakeGroup({TopicPartition("t", 0): 0}, **facts)
    request = KeepAliveRequest(include=("a*",), observe_seconds=0)
    await keep_alive(admin, layout, request, ChangeTerms(dry_run=False))
    admin.groups["a"] = FakeGroup({TopicPartition("t", 0): 0})
    (outcome,) = (await delete_plan(admin, layout, plan)).report.outcomes
    assert (outcome.outcome, outcome.code) == ("kept", "excluded")


@pytest.mark.parametrize(
    ("idle", "until", "spared"),
    [(60, 0, False), (59.9, 0, True), (600, 0.1, True), (600, -1, False)],
    ids=["idle for just long enough", "idle for less", "to be kept for longer", "neither"],
)
def test_a_kept_group_is_spared_until_the_run_s_end_and_the_idle_time_are_over(
    idle: float, until: float, spared: bool
) -> None:
    kept = KeptAlive(NOW - timedelta(seconds=idle), NOW + timedelta(seconds=until))
    assert ("g" in spare({"g": kept}, NOW, NOW, {"g": 60.0, "other": 3_600.0})) is spared
