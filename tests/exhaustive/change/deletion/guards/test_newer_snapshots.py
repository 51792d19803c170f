"""A plan waits for its approval, and snapshots go on: what they show of its groups counts."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.change.backup.make_backup import back_up_plan
from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.kafka.models import GroupState, GroupType
from airflow_kafka_groups.ledger.deletion_plan import save_plan
from airflow_kafka_groups.ledger.ledger import Known, fold_snapshots
from airflow_kafka_groups.ledger.records import KeptAlive
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.paths import SNAPSHOT_FILE, new_id, time_of
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import NOW, FakeGroup, Ticking, timeout
from tests.fakes.verdicts import verdicts_of
from tests.unit.change.deletion.steps import delete, fates
from tests.unit.change.scene import LATER, POLICY, backed_up, judge, layout_in, planned, snapshot
from tests.unit.observe.snapshot.test_cluster_folders import Slow

pytestmark = pytest.mark.safety


def joins(admin: FakeAdmin) -> None:
    admin.groups["a"] = FakeGroup(members=2)


def rebalances(admin: FakeAdmin) -> None:
    admin.groups["a"] = FakeGroup(state=GroupState.PREPARING_REBALANCE)


def moves(admin: FakeAdmin) -> None:
    admin.commit("a", "t", 0, 99)


def migrates(admin: FakeAdmin) -> None:
    admin.groups["a"] = FakeGroup(type=GroupType.CONSUMER)


def commits_only(admin: FakeAdmin) -> None:
    admin.groups["a"] = FakeGroup(protocol_type="")


@pytest.mark.parametrize("use", [joins, rebalances, moves, migrates, commits_only])
@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.promise(6)
async def test_a_group_that_a_newer_snapshot_shows_in_use_is_kept(
    tmp_path: Path, use: Callable[[FakeAdmin], None], complete: bool
) -> None:
    admin, layout = FakeAdmin({"a": FakeGroup(), "b": FakeGroup()}), layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    use(admin)
    admin.missing_brokers = {} if complete else {2: timeout()}
    newer = await take_snapshot(admin, layout, now=Ticking(LATER + timedelta(hours=1)))
    admin.groups["a"], admin.missing_brokers = FakeGroup(), {}
    report = await delete(admin, layout, plan, now=Ticking(LATER + timedelta(hours=2)))
    assert fates(report) == {"a": "kept:alive_before", "b": "deleted:safe"}
    assert newer.snapshot_id in next(item.reason for item in report.outcomes if item.group_id == "a")


async def test_a_group_that_a_newer_snapshot_shows_without_any_offset_is_kept(tmp_path: Path) -> None:
    admin, layout = FakeAdmin({"a": FakeGroup(), "b": FakeGroup()}), layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    admin.groups["a"] = FakeGroup({})
    await take_snapshot(admin, layout, now=Ticking(LATER + timedelta(hours=1)))
    admin.groups["a"] = FakeGroup()
    report = await delete(admin, layout, plan, now=Ticking(LATER + timedelta(hours=2)))
    assert fates(report) == {"a": "kept:alive_before", "b": "deleted:safe"}


async def test_a_newer_snapshot_that_does_not_know_its_cluster_counts(tmp_path: Path) -> None:
    """Brokers that start may not know the cluster's id yet, such as those of Redpanda."""
    admin, layout = FakeAdmin({"a": FakeGroup(), "b": FakeGroup()}), layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    joins(admin)
    known, admin.cluster = admin.cluster, None
    await take_snapshot(admin, layout, now=Ticking(LATER + timedelta(hours=1)))
    admin.groups["a"], admin.cluster = FakeGroup(), known
    report = await delete(admin, layout, plan, now=Ticking(LATER + timedelta(hours=2)))
    assert fates(report) == {"a": "kept:alive_before", "b": "deleted:safe"}


async def test_a_slow_snapshot_that_began_before_the_judged_one_counts(tmp_path: Path) -> None:
    admin, layout = FakeAdmin({"a": FakeGroup(), "b": FakeGroup()}), layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    began = time_of(plan.snapshot_id) - timedelta(minutes=1)
    joins(admin)
    await take_snapshot(admin, layout, now=Slow(began, 4))
    admin.groups["a"] = FakeGroup()
    assert fates(await delete(admin, layout, plan)) == {"a": "kept:alive_before", "b": "deleted:safe"}


@pytest.mark.parametrize("shown", ["in use", "gone"])
async def test_a_newer_snapshot_of_a_worker_whose_clock_is_minutes_behind_counts(tmp_path: Path, shown: str) -> None:
    """Such a snapshot may be taken, and its id says that it began before the judged one."""
    admin, layout = FakeAdmin({"a": FakeGroup(), "b": FakeGroup()}), layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    joins(admin)
    if shown == "gone":
        del admin.groups["a"]
    newer = await take_snapshot(admin, layout, now=Ticking(NOW - timedelta(minutes=4)))
    assert newer.snapshot_id < plan.snapshot_id
    admin.groups["a"] = FakeGroup()
    assert fates(await delete(admin, layout, plan)) == {"a": "kept:alive_before", "b": "deleted:safe"}


async def test_a_snapshot_from_before_the_idle_time_is_no_newer_one(tmp_path: Path) -> None:
    """It shows what it was before, and the job has seen that."""
    admin, layout = FakeAdmin({"a": FakeGroup(members=1), "b": FakeGroup()}), layout_in(tmp_path)
    await take_snapshot(admin, layout, now=Ticking(NOW - timedelta(minutes=4)))
    admin.groups["a"] = FakeGroup()
    reader = await snapshot(admin, layout)
    verdicts = verdicts_of(judge(reader, idle_since=NOW - timedelta(minutes=2), idle_seconds=120.0))
    plan = make_plan(verdicts, reader, replace(POLICY, min_idle_seconds=60), LATER)
    save_plan(layout, plan)
    await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    assert fates(await delete(admin, layout, plan)) == {"a": "deleted:safe", "b": "deleted:safe"}


async def test_a_slow_snapshot_elsewhere_counts_also_of_a_group_that_was_restored_while_it_was_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The idle time in the plan counts from the restore, and the snapshot may have read the group after that."""
    admin, layout = FakeAdmin({"a": FakeGroup(members=1), "b": FakeGroup()}), layout_in(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("airflow_kafka_groups.kafka.cluster.clock.now", iter([0.0, 99 * 60.0]).__next__)
        await take_snapshot(admin, Layout(tmp_path, "other"), now=Slow(NOW - timedelta(minutes=100), 99))
    admin.groups["a"] = FakeGroup()
    reader, restored = await snapshot(admin, layout), NOW - timedelta(minutes=61)
    kept_alive = {"a": KeptAlive(restored, restored, "a restore")}
    plan = make_plan(verdicts_of(judge(reader)), reader, POLICY, LATER, Known(kept_alive=kept_alive))
    save_plan(layout, plan)
    await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    assert fates(await delete(admin, layout, plan)) == {"a": "kept:alive_before", "b": "deleted:safe"}


async def test_a_slow_snapshot_counts_however_many_began_since(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another DAG may look at some groups every minute."""
    admin, layout = FakeAdmin({"a": FakeGroup(members=1), "b": FakeGroup()}), layout_in(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("airflow_kafka_groups.kafka.cluster.clock.now", iter([0.0, 20 * 60.0]).__next__)
        await take_snapshot(admin, layout, now=Slow(NOW - timedelta(minutes=16), 20))
    admin.groups["a"] = FakeGroup()
    for minute in range(1, 16):
        await take_snapshot(admin, layout, group_ids=["b"], now=Ticking(NOW - timedelta(minutes=16 - minute)))
    plan, _ = await backed_up(admin, layout)
    assert fates(await delete(admin, layout, plan)) == {"a": "kept:alive_before", "b": "deleted:safe"}


@pytest.mark.promise(1)
async def test_a_snapshot_that_is_taken_during_a_deletion_counts_before_the_next_request(tmp_path: Path) -> None:
    admin, layout = FakeAdmin({name: FakeGroup() for name in "abc"}), layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    first, *others = plan.group_ids
    fold_snapshots(layout, plan.kafka_cluster_id)  # as each snapshot's task does: what is missing from now on is late
    admin.groups[others[1]] = FakeGroup(members=1)
    newer = await take_snapshot(admin, layout, now=Ticking(LATER + timedelta(hours=1)))
    admin.groups[others[1]] = FakeGroup()
    manifest = Path(str(layout.manifest(newer.snapshot_id)))
    manifest.rename(tmp_path / "not yet")  # noqa: ASYNC240  # it is fast

    def publish(call: str) -> None:
        if call == "delete" and not manifest.exists():
            (tmp_path / "not yet").rename(manifest)

    admin.before = publish
    report = await delete(admin, layout, plan, chunk_size=1)
    assert fates(report) == {first: "deleted:safe", others[0]: "deleted:safe", others[1]: "kept:alive_before"}
    assert set(admin.groups) == {others[1]}


async def test_a_snapshot_that_is_taken_during_a_deletion_and_damaged_stops_it(tmp_path: Path) -> None:
    admin, layout = FakeAdmin({name: FakeGroup() for name in "ab"}), layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)

    def damage(call: str) -> None:
        if call == "delete":
            Path(str(layout.manifest(new_id(LATER + timedelta(hours=1))))).write_bytes(b"{")

    admin.before = damage
    report = await delete(admin, layout, plan, chunk_size=1)
    first, second = plan.group_ids
    assert fates(report) == {first: "deleted:safe", second: "kept:stopped"}


def unreadable(admin: FakeAdmin) -> None:
    admin.offset_errors["a"] = timeout()


def unchanged(admin: FakeAdmin) -> None:
    pass


@pytest.mark.parametrize("change", [unreadable, unchanged])
async def test_what_is_no_sign_of_life_keeps_nothing(tmp_path: Path, change: Callable[[FakeAdmin], None]) -> None:
    admin, layout = FakeAdmin({"a": FakeGroup()}), layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    change(admin)
    await take_snapshot(admin, layout, now=Ticking(LATER + timedelta(hours=1)))
    admin.groups["a"] = FakeGroup()
    admin.offset_errors.clear()
    assert fates(await delete(admin, layout, plan)) == {"a": "deleted:safe"}


@pytest.mark.parametrize(
    ("looked", "again", "fate"),
    [
        ("at all", True, "kept:alive_before"),
        ("at all", False, "gone:gone"),
        ("in vain", True, "deleted:safe"),
        ("at others", True, "deleted:safe"),
        ("by patterns", True, "kept:alive_before"),
        ("by name", True, "kept:alive_before"),
    ],
)
async def test_a_group_that_a_newer_snapshot_lacks_and_that_exists_again_is_kept(
    tmp_path: Path, looked: str, again: bool, fate: str
) -> None:
    admin, layout = FakeAdmin({"a": FakeGroup()}), layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    group = admin.groups.pop("a")
    admin.missing_brokers = {2: timeout()} if looked == "in vain" else {}
    exclude = {"at others": ["a"], "by patterns": ["b*"]}.get(looked, [])
    names = ["a"] if looked == "by name" else None
    later = Ticking(LATER + timedelta(hours=1))
    await take_snapshot(admin, layout, group_ids=names, exclude=exclude, now=later)
    admin.missing_brokers = {}
    if again:  # with the offsets that it had, as another tool restores it
        admin.groups["a"] = group
    assert fates(await delete(admin, layout, plan)) == {"a": fate}


async def test_snapshots_of_another_cluster_and_older_ones_say_nothing(tmp_path: Path) -> None:
    admin, layout = FakeAdmin({"a": FakeGroup(members=1)}), layout_in(tmp_path)
    await take_snapshot(admin, layout, now=Ticking(LATER - timedelta(days=1)))
    admin.groups["a"] = FakeGroup()
    plan, _ = await backed_up(admin, layout)
    cluster, admin.cluster = admin.cluster, "another"
    admin.groups["a"] = FakeGroup(members=1)
    await take_snapshot(admin, layout, now=Ticking(LATER + timedelta(hours=1)))
    admin.groups["a"], admin.cluster = FakeGroup(), cluster
    assert fates(await delete(admin, layout, plan)) == {"a": "deleted:safe"}


async def test_nothing_is_deleted_while_a_newer_snapshot_cannot_be_read(tmp_path: Path) -> None:
    admin, layout = FakeAdmin({"a": FakeGroup()}), layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    newer = await take_snapshot(admin, layout, now=Ticking(LATER + timedelta(hours=1)))
    (layout.snapshot_data(newer.snapshot_id) / SNAPSHOT_FILE.format(0)).write_bytes(b"torn")
    with pytest.raises(SnapshotError):
        await delete(admin, layout, plan)
    assert admin.deleted == []


@pytest.mark.promise(6)
async def test_a_plan_whose_snapshot_is_gone_deletes_nothing(tmp_path: Path) -> None:
    """A snapshot showed the group in use, and was removed before the plan was approved: plans wait."""
    admin, layout = FakeAdmin({"a": FakeGroup()}), layout_in(tmp_path)
    plan = await planned(admin, layout, replace(POLICY, max_plan_age_seconds=timedelta(days=30).total_seconds()))
    await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    joins(admin)
    await take_snapshot(admin, layout, now=Ticking(LATER + timedelta(days=5)))
    admin.groups["a"] = FakeGroup()
    newest = (await take_snapshot(admin, layout, now=Ticking(LATER + timedelta(days=20)))).snapshot_id
    for manifest in (tmp_path / "prod" / "manifests").iterdir():  # it is fast
        if manifest.stem != newest:
            manifest.unlink()
    with pytest.raises(SnapshotError, match="plan again"):
        await delete(admin, layout, plan, now=Ticking(LATER + timedelta(days=21)))
    assert set(admin.groups) == {"a"}


@pytest.mark.parametrize("left", ["a stray file in its folder", "a stray manifest", "no manifest at all"])
async def test_what_is_left_of_a_plan_s_snapshot_is_no_snapshot(tmp_path: Path, left: str) -> None:
    admin, layout = FakeAdmin({"a": FakeGroup()}), layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    joins(admin)
    used = await take_snapshot(admin, layout, now=Ticking(LATER + timedelta(hours=1)))
    admin.groups["a"] = FakeGroup()
    newest = await take_snapshot(admin, layout, now=Ticking(LATER + timedelta(hours=2)))
    gone = [plan.snapshot_id, used.snapshot_id, *([newest.snapshot_id] if left == "no manifest at all" else [])]
    for id_ in gone:
        (tmp_path / "prod" / "manifests" / f"{id_}.json").unlink()
        for file in (tmp_path / "prod" / "data" / id_).iterdir():
            file.unlink()
    if left == "a stray file in its folder":
        (tmp_path / "prod" / "data" / plan.snapshot_id / "notes.txt").write_bytes(b"mine")
    elif left == "a stray manifest":
        (tmp_path / "prod" / "manifests" / f"{plan.snapshot_id}.json").write_bytes(b"")
    with pytest.raises(SnapshotError, match="plan again"):
        await delete(admin, layout, plan, now=Ticking(LATER + timedelta(hours=3)))
    assert set(admin.groups) == {"a"}
