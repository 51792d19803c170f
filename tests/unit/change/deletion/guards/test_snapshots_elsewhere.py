"""A plan waits for its approval, and another connection to the cluster takes snapshots, in a folder of its own."""

from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from airflow_kafka_groups.change.backup.make_backup import back_up_plan
from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.kafka.cluster.config import sha256_of
from airflow_kafka_groups.kafka.models import GroupType, TopicPartition
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan, save_plan
from airflow_kafka_groups.observe.cluster_view import read_view_for_snapshot
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import NOW, FakeGroup, Ticking
from tests.fakes.verdicts import verdicts_of
from tests.unit.change.deletion.steps import delete, fates
from tests.unit.change.scene import LATER, POLICY, backed_up, delete_names, judge, layout_in

pytestmark = pytest.mark.safety


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
    of_a, of_b = ("deleted:safe", "deleted:safe") if user else ("kept:alive_before", "kept:offsets_unseen")
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
