"""Two unlucky events in a row: neither loses a group that is alive, nor deletes one twice."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.deletion import run as run_module
from airflow_kafka_groups.change.deletion.guards.exclusions import exclusions
from airflow_kafka_groups.change.lease import LeaseGuard
from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.exceptions import JournalError, OutcomeUnknownError, PlanError, StorageError
from airflow_kafka_groups.kafka.models import GroupType
from airflow_kafka_groups.ledger.approval import seal_answer, seal_question
from airflow_kafka_groups.ledger.deletion_plan import load_plan
from airflow_kafka_groups.ledger.floors import SiteFloors
from airflow_kafka_groups.ledger.history import DeletionHistory
from airflow_kafka_groups.ledger.journal import Journal, RunJournal, read_history
from airflow_kafka_groups.ledger.ledger import Known
from airflow_kafka_groups.ledger.outcomes import DeletionReport, GroupOutcome, Outcome
from airflow_kafka_groups.ledger.run_records import RunRecord
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, FakeGroup, timeout
from tests.fakes.lease import ScriptedLease
from tests.fakes.verdicts import verdicts_of
from tests.records import history_before
from tests.unit.change.deletion.steps import fates
from tests.unit.change.scene import LATER, POLICY, backed_up, delete_names, delete_plan, judge, layout_in, snapshot

pytestmark = pytest.mark.safety


def cluster(*names: str) -> FakeAdmin:
    return FakeAdmin({name: FakeGroup() for name in names})


@pytest.mark.promise(11)
async def test_a_run_that_is_overtaken_by_another_deletes_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the lease, or with two names for it: what the later run deleted and somebody restored stays."""
    admin = cluster("a", "b")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    delete = admin.delete_consumer_groups
    second: list[DeletionReport] = []

    async def overtaken(group_ids: Any, **how: Any) -> Any:
        deleted = await delete(group_ids, **how)
        if not second:
            second.append((await delete_plan(FakeView(admin), layout, plan)).report)
            admin.groups |= {name: FakeGroup() for name in ("a", "b")}
        return deleted

    monkeypatch.setattr(admin, "delete_consumer_groups", overtaken)
    first = (await delete_plan(admin, layout, plan, chunk_size=1)).report
    assert sorted(admin.deleted) == ["a", "b"], "each once"
    left = next(name for name, fate in fates(first).items() if fate == "kept:stopped")
    assert fates(second[0])[left] == "deleted:safe"
    assert "another run has begun" in first.warnings[0]
    assert set(read_history(layout, CLUSTER_ID).deletions()) == {"a", "b"}


@pytest.mark.parametrize("named", [True, False])
async def test_a_run_whose_storage_is_another_one_by_now_deletes_no_more(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount is gone, and its place is an empty folder: what would be written there is on nobody's record."""
    admin = cluster("a", "b", "c")
    layout = layout_in(tmp_path / "mount")
    delete = admin.delete_consumer_groups

    async def unmounted(group_ids: Any, **how: Any) -> Any:
        deleted = await delete(group_ids, **how)
        if not (tmp_path / "elsewhere").exists():
            (tmp_path / "mount").rename(tmp_path / "elsewhere")
            (tmp_path / "mount").mkdir()
        return deleted

    if named:
        run = partial(delete_names, admin, layout, ["a", "b", "c"], chunk_size=1, observe_seconds=0.01)
    else:
        run = partial(delete_plan, admin, layout, (await backed_up(admin, layout))[0], chunk_size=1)
    monkeypatch.setattr(admin, "delete_consumer_groups", unmounted)
    with pytest.raises(JournalError, match="check that the storage is mounted"):
        await run()
    assert len(admin.deleted) == 1
    on_record = read_history(layout_in(tmp_path / "elsewhere"), CLUSTER_ID).deletions()
    assert set(on_record) == set(admin.deleted)
    assert not (tmp_path / "mount" / "_journal").exists()


class FakeView(FakeAdmin):
    """Another client of the same cluster."""

    def __init__(self, of: FakeAdmin) -> None:
        super().__init__()
        self.groups, self.deleted = of.groups, of.deleted


@pytest.mark.promise(11)
async def test_what_another_run_intends_until_this_one_has_begun_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = cluster("a", "b")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    journal = Journal(layout.base, CLUSTER_ID)
    other = journal.begin({"run_id": "r", "request_id": "another plan"}, plan.created_at, after=history_before(journal))
    begin = Journal.begin

    def late(self: Journal, header: Any, at: datetime, *, after: DeletionHistory) -> RunJournal:
        other.intend({"a": "f"}, at)
        return begin(self, header, at, after=after)

    monkeypatch.setattr(Journal, "begin", late)
    report = (await delete_plan(admin, layout, plan)).report
    assert fates(report) == {"a": "kept:deleted_before", "b": "deleted:safe"}


@pytest.mark.parametrize(("judged_after", "kept"), [(-60, True), (1, True), (3_599, True), (3_600, False)])
def test_the_idle_time_has_to_have_passed_again_when_the_groups_were_judged(judged_after: int, kept: bool) -> None:
    """A plan that was made just after a deletion, without having seen it, does not become valid by waiting."""
    at = LATER
    run = RunRecord(
        number=1,
        begun={"run_id": "r", "request_id": "another plan"},
        outcomes={"a": GroupOutcome(group_id="a", outcome=Outcome.DELETED, code="safe", reason="deleted")},
        intents={"a": at},
        decided_at={"a": at},
        ended=None,
    )
    judged = at + timedelta(seconds=judged_after)
    now = at + timedelta(days=1)
    found = exclusions(DeletionHistory([run]), "this plan", now=now, judged_at=judged, min_idle_seconds={"": 3_600})
    assert ("a" in found) is kept


async def test_a_group_that_was_migrated_and_back_was_in_use(tmp_path: Path) -> None:
    """A group that changes its type is being used, whatever it is when the task is cleared."""
    admin = cluster("a", "b")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    admin.groups["a"].type = GroupType.CONSUMER
    assert fates((await delete_plan(admin, layout, plan)).report) == {"a": "kept:changed_kind", "b": "deleted:safe"}
    admin.groups["a"].type = GroupType.CLASSIC
    assert fates((await delete_plan(admin, layout, plan)).report)["a"] == "kept:alive_before"
    assert list(admin.groups) == ["a"]


async def test_a_group_that_was_gone_and_is_back_was_made_by_somebody(tmp_path: Path) -> None:
    """Its offsets expired or another program deleted it, and its consumer committed the same ones again."""
    admin = cluster("a", "b")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    group = admin.groups.pop("a")
    assert fates((await delete_plan(admin, layout, plan)).report) == {"a": "gone:gone", "b": "deleted:safe"}
    admin.groups["a"] = group
    assert fates((await delete_plan(admin, layout, plan)).report)["a"] == "kept:alive_before"
    reset = read_history(layout, CLUSTER_ID).idle_resets()["a"]
    assert "found it gone" in reset.reason


@pytest.mark.parametrize(("held_up", "left"), [(4.0, 11.0), (20.0, 0.0)])
async def test_what_is_left_of_the_reading_s_age_is_known_as_the_request_begins(
    held_up: float, left: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = cluster("a")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    clock = [0.0]

    async def busy(self: LeaseGuard, work: Callable[[], Awaitable[Any]]) -> Any:
        clock[0] += held_up
        return await work()

    monkeypatch.setattr(LeaseGuard, "run_while_held", busy)
    lease = ScriptedLease()
    lease.seconds = 60.0  # longer than the reading is young
    await delete_plan(admin, layout, plan, lease=lease, monotonic=lambda: clock[0])
    assert admin.send_within == [left]


class Killed(BaseException):
    """The end of a process: nothing may catch it."""


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize("end", [Killed(), asyncio.CancelledError(), OutcomeUnknownError("the connection broke")])
async def test_what_may_be_deleted_is_deleted_no_second_time_by_this_plan_or_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: BaseException, gone: bool
) -> None:
    """Killed, interrupted, or without an answer and a verification: then restored, and the task cleared."""
    admin = cluster("a")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    delete = admin.delete_consumer_groups

    async def ends(group_ids: Any, **how: Any) -> Any:
        if gone:
            await delete(group_ids, **how)
        admin.before = lambda call: (_ for _ in ()).throw(timeout())
        raise end

    with monkeypatch.context() as patch, suppress(Killed, asyncio.CancelledError):
        patch.setattr(admin, "delete_consumer_groups", ends)
        await delete_plan(admin, layout, plan)
    admin.before = lambda call: None
    admin.groups["a"] = FakeGroup()
    admin.deleted.clear()
    assert fates((await delete_plan(admin, layout, plan)).report) == {"a": "kept:deleted_before"}
    snapshot_of = await snapshot(admin, layout)
    history = read_history(layout, CLUSTER_ID)
    found = verdicts_of(judge(snapshot_of))
    assert make_plan(found, snapshot_of, POLICY, LATER + timedelta(minutes=5), Known(history=history)).groups == ()


async def test_one_cluster_in_two_folders_has_one_journal(tmp_path: Path) -> None:
    admin = cluster("a")
    one, two = layout_in(tmp_path), Layout(tmp_path, "other")
    plan, _ = await backed_up(admin, one)
    again, _ = await backed_up(admin, two)
    assert fates((await delete_plan(admin, one, plan)).report) == {"a": "deleted:safe"}
    admin.groups["a"] = FakeGroup()
    assert fates((await delete_plan(admin, two, again)).report) == {"a": "kept:deleted_before"}


async def test_a_plan_that_a_deletion_by_name_left_does_not_undercut_the_idle_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = cluster("a")
    layout = layout_in(tmp_path)
    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr(Journal, "begin", lambda *_, **__: (_ for _ in ()).throw(Killed()))
        await delete_names(admin, layout, ["a"], observe_seconds=0.01)
    (plan_id,) = {file.name.partition(".")[0] for file in (layout.root / "plans").iterdir()}
    plan = load_plan(layout, plan_id)
    with pytest.raises(PlanError, match="no deletion by name"):
        await delete_plan(admin, layout, plan, floors=SiteFloors(min_idle_seconds=604_800))
    with pytest.raises(PlanError, match="name them again"):
        await delete_plan(admin, layout, plan)
    assert admin.deleted == []


@pytest.mark.parametrize("end", [Killed, asyncio.CancelledError])
@pytest.mark.promise(6)
async def test_life_that_was_seen_while_another_chunk_was_deleted_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: type[BaseException]
) -> None:
    """The next chunk is read ahead: a process that dies during the request before must not forget what it saw."""
    admin = cluster("a", "b")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    first, second = plan.group_ids
    admin.groups[second].members = 1
    recorded = asyncio.Event()
    conclude = RunJournal.conclude
    loop = asyncio.get_running_loop()

    def noted(journal: RunJournal, outcomes: Any, at: datetime) -> None:
        conclude(journal, outcomes, at)
        loop.call_soon_threadsafe(recorded.set)

    async def dies(group_ids: Any, **how: Any) -> Any:
        assert group_ids == [first]
        await asyncio.wait_for(recorded.wait(), 5)
        raise end

    with monkeypatch.context() as patched:
        patched.setattr(RunJournal, "conclude", noted)
        patched.setattr(admin, "delete_consumer_groups", dies)
        with pytest.raises(end):
            await delete_plan(admin, layout, plan, chunk_size=1)
    admin.groups[second].members = 0
    report = (await delete_plan(admin, layout, plan, chunk_size=1)).report
    assert fates(report) == {first: "kept:deleted_before", second: "kept:alive_before"}


async def test_nothing_is_sent_when_what_was_read_ahead_could_not_be_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = cluster("a", "b")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    first, second = plan.group_ids
    admin.groups[second].members = 1
    conclude, refused = RunJournal.conclude, threading.Event()

    def fails(journal: RunJournal, outcomes: Any, at: datetime) -> None:
        if second in {outcome.group_id for outcome in outcomes}:
            refused.set()
            raise StorageError("the disk is full")
        conclude(journal, outcomes, at)

    def after_that(layout: Layout) -> None:
        assert refused.wait(5)

    monkeypatch.setattr(RunJournal, "conclude", fails)
    monkeypatch.setattr(run_module, "why_stopped", after_that)
    report = (await delete_plan(admin, layout, plan, chunk_size=1)).report
    assert admin.asked("delete") == []
    assert fates(report) == {first: "kept:stopped", second: "kept:has_members"}


@pytest.mark.parametrize("again", [None, False, True], ids=["asked", "rejected", "approved with exceptions"])
async def test_an_answer_that_is_withdrawn_during_the_run_deletes_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool | None
) -> None:
    admin = cluster("a", "b")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    first, second = plan.group_ids

    def ask(asked_by: str, approved: bool | None, excluded: list[str]) -> None:
        seal_question(layout, plan, {"try": asked_by}, LATER)
        if approved is not None:
            answer = {"approved": approved, "responded_at": LATER.isoformat(), "confirmed": "2", "excluded": excluded}
            seal_answer(layout, plan, asked_by={"try": asked_by}, person={"name": "eve"}, **answer)  # type: ignore[arg-type]

    ask("1", True, [])
    delete = admin.delete_consumer_groups

    async def withdrawn(group_ids: Any, **how: Any) -> Any:
        ask("2", again, [second])
        return await delete(group_ids, **how)

    monkeypatch.setattr(admin, "delete_consumer_groups", withdrawn)
    report = (await delete_plan(admin, layout, plan, chunk_size=1)).report
    assert fates(report) == {first: "deleted:safe", second: "kept:stopped"}
