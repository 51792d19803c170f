"""What other connections, switched ones and prunings of files change: what was seen of a plan's groups stays known."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.backup.make_backup import back_up_plan
from airflow_kafka_groups.change.file_pruning import FileKind, PruningLimits, prune
from airflow_kafka_groups.change.keep_alive import KeepAliveRequest, keep_alive
from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.change.restore.change_offsets import ChangeTerms
from airflow_kafka_groups.judge.policy.plan_policy import PLANNED_WITHIN
from airflow_kafka_groups.kafka.cluster.config import sha256_of
from airflow_kafka_groups.kafka.models import GroupType, TopicPartition
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan, save_plan
from airflow_kafka_groups.observe.cluster_view import read_view_for_snapshot
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.reader import SLOWEST, SnapshotReader
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, NOW, FakeGroup, Ticking
from tests.fakes.verdicts import verdicts_of
from tests.unit.change import scene
from tests.unit.change.deletion.steps import delete, fates
from tests.unit.change.prune_topics import scene as topics
from tests.unit.change.scene import LATER, POLICY, backed_up, delete_names, judge, layout_in, snapshot

pytestmark = pytest.mark.safety

WAITS = replace(POLICY, max_plan_age_seconds=PLANNED_WITHIN.total_seconds())
LIMITS = PruningLimits(days={FileKind.SNAPSHOT: 2}, keep_newest=1)
END = NOW + PLANNED_WITHIN - timedelta(minutes=2)
"""Shortly before the end of a plan that waits for as long as a plan can."""


@pytest.mark.parametrize("planned_at", [LATER, END - timedelta(hours=2)], ids=["at once", "late, by a cleared run"])
@pytest.mark.parametrize("folder", ["prod", "team"])
@pytest.mark.parametrize("seen_at", [NOW - timedelta(minutes=4), LATER + timedelta(hours=1)], ids=["behind", "later"])
async def test_what_a_snapshot_has_shown_in_use_is_kept_until_no_plan_is_carried_out_any_more(
    tmp_path: Path, planned_at: datetime, folder: str, seen_at: datetime
) -> None:
    """A day's snapshot was removed after two, and a plan waits for its approval, or is made yet, by an older one.

    A clock that is behind makes a snapshot seem to be older than the plan's; one that is ahead ends the plan too soon.
    """
    admin, layout, other = FakeAdmin({"a": FakeGroup()}), layout_in(tmp_path), Layout(tmp_path, folder)
    reader = await snapshot(admin, layout)
    for members, at in ((1, seen_at), (0, END - timedelta(hours=3))):
        admin.groups["a"] = FakeGroup(members=members)
        await take_snapshot(admin, other, now=Ticking(at))
    ahead = END + timedelta(hours=23)
    assert prune(other, LIMITS, now=ahead, dry_run=False).removed["snapshot"] == ()
    plan = make_plan(verdicts_of(judge(reader)), reader, WAITS, planned_at)
    save_plan(layout, plan)
    await back_up_plan(admin, layout, plan, now=Ticking(planned_at))
    assert fates(await delete(admin, layout, plan, now=Ticking(END))) == {"a": "kept:alive_before"}
    afterwards = LATER + timedelta(days=33) + SLOWEST
    await take_snapshot(admin, other, now=Ticking(afterwards))
    assert len(prune(other, LIMITS, now=afterwards, dry_run=False).removed["snapshot"]) == (
        2 if folder == "prod" else 1
    )


async def test_what_another_connection_has_shown_read_is_kept_though_topics_have_no_judgement(tmp_path: Path) -> None:
    """Topics are judged by the newest snapshot itself: a plan that is made by it later looks for others since then."""
    admin, layout, team = topics.cluster(), topics.layout_in(tmp_path), Layout(tmp_path, "team")
    at = await topics.snapshots(admin, layout)
    topics.subscribe(admin)
    await take_snapshot(admin, team, now=Ticking(at + timedelta(hours=1)))
    admin.groups["app"]._subscribed = frozenset({"live"})
    now = at + timedelta(days=4)
    await take_snapshot(admin, team, now=Ticking(now))
    assert prune(team, LIMITS, now=now + timedelta(minutes=1), dry_run=False).removed["snapshot"] == ()
    policy = replace(topics.POLICY, max_plan_age_seconds=WAITS.max_plan_age_seconds)
    assert topics.kept(topics.plan(layout, now + timedelta(minutes=2), policy)) == {"app [old]": "doubt"}


@pytest.mark.parametrize(("cluster_id", "kept"), [(None, True), ("another", False)])
async def test_a_group_that_such_a_snapshot_shows_in_use_is_kept(
    tmp_path: Path, cluster_id: str | None, kept: bool
) -> None:
    admin, layout = FakeAdmin({"a": FakeGroup(), "b": FakeGroup()}), layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    known = admin.cluster
    admin.groups["a"], admin.cluster = FakeGroup(members=2), cluster_id or known
    await take_snapshot(admin, Layout(tmp_path, "renamed"), now=Ticking(LATER + timedelta(hours=1)))
    admin.groups["a"], admin.cluster = FakeGroup(), known
    report = await delete(admin, layout, plan, now=Ticking(LATER + timedelta(hours=2)))
    assert fates(report) == {"a": "kept:alive_before" if kept else "deleted:safe", "b": "deleted:safe"}


@pytest.mark.parametrize("seen_by", ["the recheck", "a snapshot"])
@pytest.mark.promise(1)
async def test_a_group_whose_epoch_moved_since_it_was_judged_is_kept(tmp_path: Path, seen_by: str) -> None:
    """A member of the consumer protocol came, committed nothing, and left."""
    groups = {name: FakeGroup(type=GroupType.CONSUMER) for name in "ab"}
    admin, layout = FakeAdmin(groups), layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    assert [group.group_epoch for group in plan.groups] == [1, 1]
    groups["a"].epoch = 3
    if seen_by == "a snapshot":
        await take_snapshot(admin, layout, now=Ticking(LATER + timedelta(hours=1)))
        groups["a"].epoch = 1  # as of a group that was deleted and made again
    report = await delete(admin, layout, plan, now=Ticking(LATER + timedelta(hours=2)))
    code = "alive_before" if seen_by == "a snapshot" else "came_back"
    assert fates(report) == {"a": f"kept:{code}", "b": "deleted:safe"}
    (kept,) = (outcome for outcome in report.outcomes if outcome.group_id == "a")
    assert "group epoch" in kept.reason


@pytest.mark.promise(1)
async def test_a_group_that_is_named_and_whose_epoch_moves_while_it_is_watched_is_kept(tmp_path: Path) -> None:
    groups = {name: FakeGroup(type=GroupType.CONSUMER) for name in "ab"}

    async def meanwhile(_: float) -> None:
        groups["a"].epoch = 3

    report = await delete_names(FakeAdmin(groups), layout_in(tmp_path), ["a", "b"], sleep=meanwhile)
    assert fates(report.report) == {"a": "kept:came_back", "b": "deleted:safe"}


async def snapshot_with_view(admin: FakeAdmin, layout: Layout, later: timedelta = timedelta(0)) -> SnapshotReader:
    """Take a snapshot that says who took it, as each operator does."""
    view = partial(read_view_for_snapshot, admin)
    taken = await take_snapshot(admin, layout, now=Ticking(NOW + later), view=view)
    return SnapshotReader(layout, taken.snapshot_id)


async def planned_with_view(admin: FakeAdmin, layout: Layout) -> DeletionPlan:
    reader = await snapshot_with_view(admin, layout)
    plan = make_plan(verdicts_of(judge(reader)), reader, POLICY, LATER)
    save_plan(layout, plan)
    await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    return plan


@pytest.mark.parametrize("user", ["", "user:of-a-team"])
async def test_what_another_user_may_not_see_is_neither_gone_nor_moved(tmp_path: Path, user: str) -> None:
    """Brokers list only the groups, and the offsets of the topics, that a user may describe."""
    admin, layout = FakeAdmin(), layout_in(tmp_path)
    for name in "abc":
        admin.add(name, ("t", 0, 5), ("u", 0, 6))
    plan = await planned_with_view(admin, layout)
    known, own = dict(admin.groups), admin.connection
    admin.connection, admin.sees_topics = replace(own, identity=sha256_of(user)), False
    del admin.groups["a"]
    admin.groups["b"] = FakeGroup({TopicPartition("t", 0): 5})
    admin.groups["c"] = FakeGroup(members=1)
    await snapshot_with_view(admin, Layout(tmp_path, "of-a-team"), timedelta(hours=1))
    admin.groups, admin.connection, admin.sees_topics = known, own, True
    report = await delete(admin, layout, plan, now=Ticking(LATER + timedelta(hours=2)))
    of_a, of_b = ("deleted:safe", "deleted:safe") if user else ("kept:alive_before", "kept:alive_before")
    assert fates(report) == {"a": of_a, "b": of_b, "c": "kept:alive_before"}


@pytest.mark.parametrize("of", ["another", "this"])
async def test_a_folder_that_somebody_copied_stops_no_deletion(tmp_path: Path, of: str) -> None:
    """Its manifests name the folder that they are from: each deletion of all clusters in the storage failed by one."""
    admin, layout = FakeAdmin({"a": FakeGroup(), "b": FakeGroup()}), layout_in(tmp_path)
    await take_snapshot(admin, layout, now=Ticking(NOW - timedelta(days=1)))
    plan, _ = await backed_up(admin, layout)
    known, from_there = admin.cluster, Layout(tmp_path, "from-there")
    admin.groups["a"], admin.cluster = FakeGroup(members=2), "another" if of == "another" else known
    await take_snapshot(admin, from_there, now=Ticking(LATER + timedelta(hours=1)))
    admin.groups["a"], admin.cluster = FakeGroup(), known
    Path(str(from_there.root)).rename(tmp_path / "copied")  # noqa: ASYNC240  # it is fast
    report = await delete(admin, layout, plan, now=Ticking(LATER + timedelta(hours=2)))
    assert fates(report) == {"a": "deleted:safe" if of == "another" else "kept:alive_before", "b": "deleted:safe"}


async def test_a_damaged_snapshot_of_another_cluster_stops_no_deletion(tmp_path: Path) -> None:
    """The snapshots before it say whose the folder is."""
    admin, layout = FakeAdmin({"a": FakeGroup()}), layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    other, known, admin.cluster = Layout(tmp_path, "other"), admin.cluster, "another"
    await take_snapshot(admin, other, now=Ticking(NOW))
    damaged = await take_snapshot(admin, other, now=Ticking(LATER + timedelta(hours=1)))
    other.manifest(damaged.snapshot_id).write_bytes(b"{")
    admin.cluster = known
    report = await delete(admin, layout, plan, now=Ticking(LATER + timedelta(hours=2)))
    assert fates(report) == {"a": "deleted:safe"}


async def test_a_connection_that_has_another_cluster_by_now_has_shown_this_one(tmp_path: Path) -> None:
    """As after a failover: its folder was taken for the other cluster's, by its newest snapshot."""
    admin, layout = FakeAdmin({"a": FakeGroup(), "b": FakeGroup()}), layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    known, switched = admin.cluster, Layout(tmp_path, "switched")
    admin.groups["a"] = FakeGroup(members=2)
    await take_snapshot(admin, switched, now=Ticking(LATER + timedelta(hours=1)))
    admin.groups["a"], admin.cluster = FakeGroup(), "another"
    await take_snapshot(admin, switched, now=Ticking(LATER + timedelta(hours=2)))
    admin.cluster = known
    report = await delete(admin, layout, plan, now=Ticking(LATER + timedelta(hours=3)))
    assert fates(report) == {"a": "kept:alive_before", "b": "deleted:safe"}


Step = Callable[[FakeAdmin, Layout, DeletionPlan, str], Awaitable[object]]


async def kept_alive(admin: FakeAdmin, switched: Layout, plan: DeletionPlan, group_id: str) -> object:
    request = KeepAliveRequest(group_ids=(group_id,), observe_seconds=0)
    return await keep_alive(admin, switched, request, ChangeTerms(dry_run=False))


async def restored(admin: FakeAdmin, switched: Layout, plan: DeletionPlan, group_id: str) -> object:
    """Restore what is there still, as a person does who wants to be sure."""
    return await scene.restored(admin, switched, plan.plan_id, group_id, of=Layout(switched.base, plan.cluster))


async def shown_in_use(admin: FakeAdmin, switched: Layout, plan: DeletionPlan, group_id: str) -> object:
    admin.groups[group_id] = FakeGroup(members=1)
    taken = await take_snapshot(admin, switched, now=Ticking(LATER + timedelta(hours=2)))
    admin.groups[group_id] = FakeGroup()
    return taken


async def shown_in_use_when_the_id_is_known(
    admin: FakeAdmin, switched: Layout, plan: DeletionPlan, group_id: str
) -> object:
    """Brokers that start may not know their cluster's id yet."""
    admin.cluster = None
    await take_snapshot(admin, switched, now=Ticking(LATER + timedelta(hours=1)))
    admin.cluster = CLUSTER_ID
    return await shown_in_use(admin, switched, plan, group_id)


@pytest.mark.parametrize(
    ("step", "fate"),
    [
        (kept_alive, "kept:excluded"),
        (restored, "kept:excluded"),
        (shown_in_use, "kept:alive_before"),
        (shown_in_use_when_the_id_is_known, "kept:alive_before"),
    ],
)
async def test_what_it_writes_during_a_deletion_is_heeded(
    step: Step, fate: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other clusters' folders are looked into once, when the deletion begins."""
    admin, layout, switched = (
        FakeAdmin({"a": FakeGroup(), "b": FakeGroup()}),
        layout_in(tmp_path),
        Layout(tmp_path, "s"),
    )
    plan, _ = await backed_up(admin, layout)
    admin.cluster = "another"
    await take_snapshot(admin, switched, now=Ticking(NOW))
    admin.cluster = CLUSTER_ID
    first, second = plan.group_ids
    real = admin.delete_consumer_groups

    async def meanwhile(group_ids: Any, **how: Any) -> Any:
        deleted = await real(group_ids, **how)
        await step(admin, switched, plan, second)
        return deleted

    monkeypatch.setattr(admin, "delete_consumer_groups", meanwhile)
    report = await delete(admin, layout, plan, now=Ticking(LATER + timedelta(hours=3)), chunk_size=1)
    assert fates(report) == {first: "deleted:safe", second: fate}
