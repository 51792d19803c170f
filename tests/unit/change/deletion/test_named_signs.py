"""A group that is deleted by name was judged by nobody: what the ledger knows of its life keeps it."""

from collections.abc import Awaitable, Callable
from copy import deepcopy
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import PlanError, SnapshotError, StorageError
from airflow_kafka_groups.ledger.floors import SiteFloors
from airflow_kafka_groups.ledger.outcomes import DeletionReport
from airflow_kafka_groups.observe.cluster_log import ClusterLog
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.reader import snapshot_ids
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, Ticking
from tests.unit.change.deletion.steps import fates
from tests.unit.change.scene import LATER, delete_names, delete_plan, planned
from tests.unit.operators.test_signs_of_life import SHOWN

pytestmark = pytest.mark.safety

NAMES = ("a", "b")
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
KEPT = {"a": "kept:alive_before", "b": "deleted:safe"}


class Scene:
    """Groups ``a`` and ``b``, and what is known of them; ``at`` is a time before the deletion."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.admin = FakeAdmin()
        self.admin.groups = {name: FakeGroup() for name in (*NAMES, "live")}
        self.watched: list[float] = []

    async def look(self, ago: timedelta, folder: str = "prod") -> None:
        await take_snapshot(self.admin, Layout(self.folder, folder), now=Ticking(LATER - ago))

    async def delete(self, meanwhile: Callable[[], Awaitable[None]] | None = None, **how: Any) -> DeletionReport:
        async def sleep(seconds: float) -> None:
            self.watched.append(seconds)
            if meanwhile is not None:
                await meanwhile()

        return (await delete_names(self.admin, Layout(self.folder, "prod"), NAMES, sleep=sleep, **how)).report


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.mark.promise(1)
async def test_a_group_that_two_snapshots_show_moving_is_kept_with_that_as_the_reason(scene: Scene) -> None:
    """It commits every thirty seconds, and is quiet for as long as somebody watches."""
    await scene.look(2 * DAY)
    scene.admin.commit("a", "t", 0, 3)
    await scene.look(HOUR)
    report = await scene.delete()
    assert fates(report) == KEPT
    (reason,) = (outcome.reason for outcome in report.outcomes if outcome.group_id == "a")
    assert "it had other committed offsets, or another group epoch (KIP-848), than before, less than 1d ago" in reason
    assert scene.watched == [60.0]
    assert report.warnings == (), "the cluster was watched for a day"


@pytest.mark.parametrize("sign", SHOWN, ids=lambda sign: sign.name)
@pytest.mark.parametrize("folder", ["prod", "other"])
async def test_each_sign_in_a_snapshot_of_any_connection_counts(scene: Scene, sign: Any, folder: str) -> None:
    clock, states = Ticking(LATER - HOUR), list[dict[str, FakeGroup]]()
    SHOWN[sign](scene.admin, lambda: states.append(deepcopy(scene.admin.groups)))
    for groups in states:
        scene.admin.groups = groups
        await take_snapshot(scene.admin, Layout(scene.folder, folder), now=clock)
    scene.admin.groups = {name: FakeGroup() for name in (*NAMES, "live")}
    assert fates(await scene.delete()) == KEPT


async def test_a_snapshot_of_another_connection_counts_where_the_log_could_not_be_written(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.look(2 * DAY, "other")
    scene.admin.groups["a"].members = 1
    with monkeypatch.context() as patched:

        def refuse(*_: Any) -> None:
            raise StorageError("the storage is full")

        patched.setattr(ClusterLog, "create", refuse)
        await scene.look(HOUR, "other")
    scene.admin.groups["a"].members = 0
    assert fates(await scene.delete()) == KEPT


@pytest.mark.parametrize(
    ("floors", "kept"),
    [
        (SiteFloors(), False),
        (SiteFloors(min_idle_seconds=3 * 86_400, named_deletions=True), True),
        (SiteFloors(min_idle_seconds=3_600, named_deletions=True), False),
    ],
    ids=["a day", "the site's three days", "the site's hour"],
)
async def test_the_sites_least_idle_time_counts_or_a_day(scene: Scene, floors: SiteFloors, kept: bool) -> None:
    await scene.look(9 * DAY)
    scene.admin.groups["a"].members = 1
    await scene.look(2 * DAY)
    scene.admin.groups["a"].members = 0
    await scene.look(timedelta(minutes=5))
    assert fates(await scene.delete(floors=floors))["a"] == ("kept:alive_before" if kept else "deleted:safe")


async def test_a_snapshot_that_is_taken_while_the_groups_are_watched_counts(scene: Scene) -> None:
    async def meanwhile() -> None:
        scene.admin.groups["a"].members = 1
        await scene.look(timedelta(), "other")
        scene.admin.groups["a"].members = 0

    assert fates(await scene.delete(meanwhile)) == KEPT


@pytest.mark.parametrize("is_damaged", [False, True])
async def test_a_snapshot_that_is_taken_during_the_run_counts(
    scene: Scene, is_damaged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete_groups = scene.admin.delete_consumer_groups

    async def deleting(*arguments: Any, **how: Any) -> Any:
        found = await delete_groups(*arguments, **how)
        scene.admin.groups["b"].members = 1
        await scene.look(timedelta(), "other")
        scene.admin.groups["b"].members = 0
        if is_damaged:
            damage(Layout(scene.folder, "other"))
        return found

    monkeypatch.setattr(scene.admin, "delete_consumer_groups", deleting)
    found = fates(await scene.delete(chunk_size=1))
    assert found == {"a": "deleted:safe", "b": "kept:stopped" if is_damaged else "kept:alive_before"}
    assert "b" in scene.admin.groups


async def test_what_the_recheck_of_another_run_found_counts(scene: Scene) -> None:
    layout = Layout(scene.folder, "prod")
    plan = await planned(scene.admin, layout)
    scene.admin.groups["a"].members = 1
    await delete_plan(scene.admin, layout, plan, dry_run=True)
    scene.admin.groups["a"].members = 0
    assert fates(await scene.delete()) == KEPT


def damage(layout: Layout) -> None:
    (rows,) = Path(str(layout.snapshot_data(snapshot_ids(layout)[0]))).iterdir()
    rows.write_bytes(rows.read_bytes()[:-9])


async def test_a_snapshot_that_cannot_be_read_keeps_all_groups(scene: Scene) -> None:
    await scene.look(HOUR)
    damage(Layout(scene.folder, "prod"))
    with pytest.raises(SnapshotError, match="What it showed is not known"):
        await scene.delete()
    assert scene.admin.deleted == []


async def test_signs_are_ignored_only_by_an_argument_that_says_so(scene: Scene) -> None:
    scene.admin.groups["a"].members = 1
    await scene.look(HOUR)
    scene.admin.groups["a"].members = 0
    assert fates(await scene.delete())["a"] == "kept:alive_before"
    assert fates(await scene.delete(ignore_signs_of_life=True, request_id="another"))["a"] == "deleted:safe"


@pytest.mark.parametrize(
    ("floors", "may"),
    [
        (SiteFloors(ignore_signs_of_life=False), False),
        (SiteFloors(min_idle_seconds=60, named_deletions=True), False),
        (SiteFloors(min_idle_seconds=60, named_deletions=True, ignore_signs_of_life=True), True),
        (SiteFloors(ignore_signs_of_life=True).stricter(SiteFloors(ignore_signs_of_life=False)), False),
        (SiteFloors(), True),
    ],
)
@pytest.mark.promise(9)
async def test_a_floor_forbids_to_ignore_them(scene: Scene, floors: SiteFloors, may: bool) -> None:
    if may:
        assert set(fates(await scene.delete(floors=floors, ignore_signs_of_life=True)).values()) == {"deleted:safe"}
        return
    with pytest.raises(PlanError, match="ignore_signs_of_life"):
        await scene.delete(floors=floors, ignore_signs_of_life=True)
    assert scene.admin.deleted == []
    assert set(fates(await scene.delete(floors=floors)).values()) == {"deleted:safe"}


@pytest.mark.parametrize(
    ("looks", "warned"),
    [((), "there is no snapshot"), ((HOUR,), "the snapshots are of"), ((9 * DAY, 2 * DAY), "the snapshots are of"),
     ((9 * DAY, HOUR), None)],
)  # fmt: skip
@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_cluster_that_nobody_has_watched_is_said_so(
    scene: Scene, looks: tuple[timedelta, ...], warned: str | None, dry_run: bool
) -> None:
    for ago in looks:
        await scene.look(ago)
    report = await scene.delete(dry_run=dry_run)
    if warned is None:
        assert report.warnings == ()
    else:
        (warning,) = report.warnings
        assert f"this cluster was not watched for the last 1d ({warned}" in warning
