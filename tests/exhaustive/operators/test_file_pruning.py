"""Old files go, whole sets of them; the newest, and whatever this package did not write, stay."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.change import file_pruning
from airflow_kafka_groups.change.file_pruning import FileKind, PruningLimits
from airflow_kafka_groups.change.file_pruning import prune as prune_files
from airflow_kafka_groups.exceptions import MaintenanceError, StorageError
from airflow_kafka_groups.operators.pruning import PruneFilesOperator
from airflow_kafka_groups.operators.report import CleanupReportOperator
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.fakes.refusing_path import RefusingPath
from tests.unit.made_once import made_once
from tests.unit.operators import scene

SNAPSHOT_FOLDERS = ("manifests", "data", "members", "subscriptions", "tables", "summaries")
SETS = {"snapshot": 3, "cleanup": 3, "change": 0, "listing": 0, "backlog": 0}


def files(storage: Path) -> set[str]:
    return {str(path.relative_to(storage)) for path in (storage / scene.CLUSTER).rglob("*") if path.is_file()}


def prune(storage: Path, **arguments: Any) -> dict[str, Any]:
    return scene.run(PruneFilesOperator, storage, **{"keep_newest": 1, "dry_run": False, **arguments})


def clean_up(admin: FakeAdmin, storage: Path) -> None:
    """Run a complete clean-up: snapshot, verdicts, plan, backup, deletion, report."""
    admin.groups = {"a": FakeGroup(), "b": FakeGroup()}
    scene.judge(storage, scene.take_snapshot(storage), stale=["a"])
    plan = scene.plan(storage, max_share=1.0)
    scene.back_up(storage, plan)
    scene.apply(storage, plan)
    scene.run(CleanupReportOperator, storage, plan_id=plan["plan_id"])


def named(data: bytes) -> tuple[str, str]:
    """Return how a manifest names what is in a file."""
    return f'"{sha256(data).hexdigest()}"', f'"bytes": {len(data)}'


def make_older(storage: Path, days: int) -> set[str]:
    """Let everything that is there be of so many days ago, by the times in ids and texts; give its names."""
    before = files(storage)
    stamp = f"{datetime.now(UTC) - timedelta(days=days):%Y%m%d}T"
    days_of_test = [datetime.now(UTC) - timedelta(days=back) for back in (0, 1, -1)]  # a plan ends a day later
    today = re.compile(rf"(?:{'|'.join(f'{day:%Y%m%d}' for day in days_of_test)})T(?=\d{{6}}Z-)")
    date = re.compile(rf"(?:{'|'.join(f'{day:%Y-%m-%d}' for day in days_of_test)})T")
    dated = f"{datetime.now(UTC) - timedelta(days=days):%Y-%m-%d}T"
    rewritten: dict[str, str] = {}
    for path in sorted((storage / scene.CLUSTER / "data").rglob("*.parquet")):
        was, table = path.read_bytes(), pq.read_table(path, partitioning=None)
        ids = [today.sub(stamp, run_id) for run_id in table["run_id"].to_pylist()]
        at = table.schema.get_field_index("run_id")
        pq.write_table(table.set_column(at, table.schema.field(at), pa.array(ids, table.schema.field(at).type)), path)
        rewritten |= dict(zip(named(was), named(path.read_bytes()), strict=True))
    for path in sorted((storage / scene.CLUSTER).rglob("*"), reverse=True):
        if path.is_file() and path.suffix != ".parquet":
            text = date.sub(dated, today.sub(stamp, path.read_text()))
            path.write_text(re.sub("|".join(map(re.escape, rewritten)), lambda found: rewritten[found[0]], text))
        if today.search(path.name):
            path.rename(path.with_name(today.sub(stamp, path.name)))
    return files(storage) - before


@pytest.fixture
def years(admin: FakeAdmin, tmp_path: Path) -> tuple[Path, list[set[str]]]:
    """Make three clean-ups, of long ago, of a while ago and of today; give each one's files."""

    def make() -> list[list[str]]:
        ages = []
        for days in (1000, 100, 0):
            clean_up(admin, tmp_path)
            ages.append(make_older(tmp_path, days) if days else set())
        ages[2] = files(tmp_path) - ages[0] - ages[1]
        return [sorted(age) for age in ages]

    ages = made_once("years", tmp_path, make)
    admin.forget_calls()
    return tmp_path, [set(age) for age in ages]


def test_old_sets_go_whole_and_only_when_told(years: tuple[Path, list[set[str]]]) -> None:
    storage, (oldest, middle, newest) = years
    trend = {f"{scene.CLUSTER}/reports/trend.{suffix}" for suffix in ("html", "json")}
    assert len(oldest) == len(middle) == len(newest - trend) == 11
    assert trend <= newest, "the trend is of all runs, and stays"
    found = scene.run(PruneFilesOperator, storage, keep_newest=1)
    assert (found["dry_run"], found["removed"]["snapshot"], found["removed"]["cleanup"]) == (True, 2, 1)
    assert found["files"] == 6 + 6 + 5
    assert files(storage) == oldest | middle | newest, "a dry run is the default"

    found = prune(storage)
    assert (found["dry_run"], found["foreign"]) == (False, {})
    assert (found["removed"]["cleanup"], found["kept"]["snapshot"]) == (1, 1)
    snapshots = {name for name in middle if name.split("/")[1] in SNAPSHOT_FOLDERS}
    assert files(storage) == (middle - snapshots) | newest, "clean-ups are kept longer than snapshots"
    assert not [path for path in (storage / scene.CLUSTER / "data").iterdir() if not list(path.iterdir())]
    assert prune(storage, snapshot_days=1, cleanup_days=1)["kept"] == {**SETS, "snapshot": 1, "cleanup": 1}
    assert files(storage) == newest


@pytest.mark.parametrize("done", range(11))
def test_what_an_error_leaves_another_run_removes(
    years: tuple[Path, list[set[str]]], done: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, (oldest, middle, newest) = years
    left, unlink = [done], Path.unlink

    def fail_once(path: Path, **how: bool) -> None:
        is_removed = not how and scene.CLUSTER in path.parts  # not what the folded log was before
        left[0] -= is_removed
        if left[0] == -1 and is_removed:
            raise PermissionError(13, "denied")
        unlink(path, **how)

    monkeypatch.setattr(Path, "unlink", fail_once)
    with pytest.raises(StorageError, match="denied"):
        prune(storage, snapshot_days=500)
    assert prune(storage, snapshot_days=500)["foreign"] == {}
    assert not oldest & files(storage)
    assert middle | newest == files(storage)


def test_observations_go_with_their_snapshot(years: tuple[Path, list[set[str]]]) -> None:
    storage, ages = years
    root = storage / scene.CLUSTER
    snapshots = [name.split("/")[-1][:25] for age in ages for name in sorted(age) if "/manifests/" in name]
    for snapshot in snapshots:
        manifest = {"format": 1, "snapshot_id": snapshot, "cluster": scene.CLUSTER}
        for path, content in (
            (root / "summaries" / "observations" / f"{snapshot}.json", json.dumps(manifest)),
            (root / "tables" / "observations" / f"snapshot_id={snapshot}" / "part-0a1b2c3d.parquet", "rows"),
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
            path.with_name(f".{path.name}.0a1b2c3d.tmp").write_text("of a killed job")
    found = prune(storage)
    assert (found["removed"]["snapshot"], found["foreign"]) == (2, {})
    for table in ("observations", "verdicts"):
        assert [path.stem for path in (root / "summaries" / table).glob("[!.]*")] == snapshots[2:]
        assert [path.name for path in (root / "tables" / table).iterdir()] == [f"snapshot_id={snapshots[2]}"]


def test_the_newest_stay_whatever_their_age(years: tuple[Path, list[set[str]]]) -> None:
    storage, (_, middle, newest) = years
    assert prune(storage, snapshot_days=1, cleanup_days=1, keep_newest="2")["removed"]["cleanup"] == 1
    assert files(storage) == middle | newest


@pytest.mark.parametrize(
    ("where", "content"),
    [
        ("data/{snapshot}/notes.txt", "mine"),
        ("manifests/{snapshot}.json", "not json"),
        ("plans/{plan}.json", '{"format": 1, "plan_id": "{plan}"}'),
        ("tables/observations/snapshot_id={snapshot}/notes.txt", "mine"),
        ("tables/verdicts/snapshot_id={snapshot}/part-0.csv", "mine"),
    ],
)
def test_what_is_not_of_this_package_keeps_its_whole_set(
    years: tuple[Path, list[set[str]]], where: str, content: str
) -> None:
    storage, (oldest, _, _) = years
    (plan,) = {name.split("/")[-1][:25] for name in oldest if "/plans/" in name}
    (snapshot,) = {name.split("/")[-1][:25] for name in oldest if "/manifests/" in name}
    path = storage / scene.CLUSTER / where.format(plan=plan, snapshot=snapshot)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content.replace("{plan}", plan))
    kind = "snapshot" if "snapshot" in where else "cleanup"
    found = prune(storage)
    assert list(found["foreign"]) == [f"{kind} {snapshot if kind == 'snapshot' else plan}"]
    kept = {name for name in oldest if (name.split("/")[1] in SNAPSHOT_FOLDERS) == (kind == "snapshot")}
    assert kept <= files(storage)
    assert path.exists()


def test_what_has_another_name_is_not_even_looked_at(years: tuple[Path, list[set[str]]]) -> None:
    storage, _ = years
    root = storage / scene.CLUSTER
    mine = [root / "plans" / "README.json", root / "mine" / "20200101T000000Z-00000000.json", root / "data" / "x" / "y"]
    mine.append(root / "manifests" / "20201399T000000Z-00000000.json")  # no such day
    for path in mine:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    prune(storage, snapshot_days=1, cleanup_days=1)
    assert all(path.exists() for path in mine)


def test_a_cluster_without_files_is_fine(tmp_path: Path) -> None:
    assert prune(tmp_path)["files"] == 0


def test_an_error_of_the_storage_is_reported_as_one(years: tuple[Path, list[set[str]]]) -> None:
    storage, _ = years
    base: Any = RefusingPath(storage, "ls")
    limits = PruningLimits(days={FileKind.SNAPSHOT: 1})
    with pytest.raises(StorageError, match="could not be listed: BotoError: AccessDenied"):
        prune_files(Layout(base, scene.CLUSTER), limits, now=datetime.now(UTC), dry_run=True)


def test_the_plan_of_a_migration_ages_as_a_change_does(tmp_path: Path) -> None:
    folder = tmp_path / scene.CLUSTER / "changes"
    folder.mkdir(parents=True)
    for days in (1000, 0):
        run = f"{datetime.now(UTC) - timedelta(days=days):%Y%m%dT%H%M%SZ}-00000001"
        head = {"format": 1, "run_id": run, "cluster": scene.CLUSTER, "dry_run": True, "groups": []}
        (folder / f"{run}-plan.json").write_text(json.dumps(head))
    assert prune(tmp_path)["removed"]["change"] == 1
    assert len(files(tmp_path)) == 1


def test_what_a_killed_migration_has_left_of_its_spark_job_goes(tmp_path: Path) -> None:
    folder = tmp_path / scene.CLUSTER / "changes"
    for days in (500, 1, 0):
        run = f"{datetime.now(UTC) - timedelta(days=days):%Y%m%dT%H%M%SZ}-00000001"
        (folder / f"{run}-translations").mkdir(parents=True)
        (folder / f"{run}-translations" / "part-0.parquet").touch()
        (folder / f"{run}-places.parquet").touch()
    found = prune(tmp_path)
    assert (found["removed"]["change"], found["foreign"], len(files(tmp_path))) == (1, {}, 4)


@pytest.mark.safety
def test_nothing_is_removed_through_a_link(tmp_path: Path) -> None:
    """Who may write to the storage could name any folder of files that Spark wrote, and the task's user remove them."""
    table = tmp_path / "warehouse" / "orders"
    data = tmp_path / scene.CLUSTER / "data"
    data.mkdir(parents=True)
    table.mkdir(parents=True)
    rows = table / "part-00000-0a1b2c3d.snappy.parquet"
    rows.write_text("rows of somebody else")
    old, newest = "20200101T000000Z-0123abcd", "20200102T000000Z-0123abcd"
    (data / newest).mkdir()
    manifest = tmp_path / scene.CLUSTER / "manifests" / f"{newest}.json"
    manifest.parent.mkdir()
    manifest.write_text("{}")
    (data / old).symlink_to(table)
    found = prune(tmp_path)
    assert rows.exists()
    assert (found["removed"]["snapshot"], list(found["foreign"])) == (0, [f"snapshot {old}"])


def test_only_what_is_old_is_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder may have the snapshots of a year, and a run of each day removes those of one."""
    now = datetime.now(UTC) - timedelta(minutes=30)
    for hours in range(106):
        snapshot = f"{now - timedelta(hours=hours):%Y%m%dT%H%M%SZ}-00000001"
        manifest = {"format": 1, "snapshot_id": snapshot, "cluster": scene.CLUSTER}
        for where, content in (
            (f"manifests/{snapshot}.json", json.dumps(manifest)),
            (f"data/{snapshot}/part-00000.parquet", "rows"),
        ):
            path = tmp_path / scene.CLUSTER / where
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    looks: list[Path] = []

    def noted(method: Callable[[Path], Any]) -> Callable[[Path], Any]:
        def look(path: Path) -> Any:
            if path.exists():  # of a folder that is not there, nothing is looked into
                looks.append(path)
            return method(path)

        return look

    for name in ("read_bytes", "iterdir"):
        monkeypatch.setattr(Path, name, noted(getattr(Path, name)))
    monkeypatch.setattr(file_pruning, "LEAST_AGE", timedelta(days=4))
    assert prune(tmp_path, snapshot_days=4)["removed"]["snapshot"] == 4
    assert len(looks) < 20


# Files are old by their ids: a clock that is wrong, or a pause, removes nothing.


def written_days_ago(storage: Path, *days: float) -> Layout:
    """Write listings of these days."""
    layout = Layout(storage, scene.CLUSTER)
    (layout.root / "listings").mkdir(parents=True)
    for number, each in enumerate(days):
        id_ = f"{datetime.now(UTC) - timedelta(days=each):%Y%m%dT%H%M%SZ}-0000000{number}"
        (layout.root / "listings" / f"{id_}.json").write_bytes(b'{"format": 1}')
    return layout


def limits(days: float) -> PruningLimits:
    return PruningLimits(days=dict.fromkeys(FileKind, days), keep_newest=1)


@pytest.mark.safety
@pytest.mark.parametrize("ahead", [0, 40, 400])
def test_a_clock_that_is_far_ahead_makes_nothing_old(tmp_path: Path, ahead: int) -> None:
    layout = written_days_ago(tmp_path, 500, 100, 1)
    before, now = files(tmp_path), datetime.now(UTC) + timedelta(days=ahead)
    if not ahead:
        assert prune_files(layout, limits(365), now=now, dry_run=False).files == 1
        return
    for dry_run in (True, False):
        with pytest.raises(MaintenanceError) as caught:
            prune_files(layout, limits(365), now=now, dry_run=dry_run)
    assert files(tmp_path) == before
    for part in (scene.CLUSTER, "listing 20", f"{now:%Y-%m-%dT%H:%M}", f"{ahead + 1}d", "take a snapshot first"):
        assert part in str(caught.value)


def test_a_file_that_another_clock_dated_ahead_does_not_prove_this_one_right(tmp_path: Path) -> None:
    layout = written_days_ago(tmp_path, 500, 400, 300, -4000)
    before = files(tmp_path)
    with pytest.raises(MaintenanceError, match="nothing is removed"):
        prune_files(layout, limits(90), now=datetime.now(UTC), dry_run=False)
    assert files(tmp_path) == before


def test_files_that_are_made_and_pruned_once_a_month_are_no_pause(tmp_path: Path) -> None:
    """Of the months with 31 days, each pruning before the month's snapshot was refused."""
    layout = written_days_ago(tmp_path, *(31.2 + 31 * month for month in range(4)))
    assert prune_files(layout, limits(40), now=datetime.now(UTC), dry_run=False).files == 3


def test_after_a_pause_of_months_a_snapshot_is_enough(admin: FakeAdmin, tmp_path: Path) -> None:
    written_days_ago(tmp_path, 500, 200)
    with pytest.raises(MaintenanceError, match="such as after a pause"):
        prune(tmp_path)
    scene.take_snapshot(tmp_path)
    assert prune(tmp_path)["removed"]["listing"] == 1


def test_where_nothing_is_to_be_removed_no_new_file_is_asked_for(tmp_path: Path) -> None:
    written_days_ago(tmp_path, 500)
    assert prune(tmp_path)["files"] == 0, "the newest stays"
