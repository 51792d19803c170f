"""No pruning of files removes what a later decision about groups goes by."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.file_pruning.file_sets import FileKind
from airflow_kafka_groups.change.file_pruning.prune import PruneReport, PruningLimits, prune
from airflow_kafka_groups.exceptions import MaintenanceError, StorageError
from airflow_kafka_groups.storage.file_storage import Storage
from airflow_kafka_groups.storage.json_files import read_json
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from tests.fakes.admin import FakeAdmin
from tests.unit.operators import scene

pytestmark = pytest.mark.safety

DAYS = {**dict.fromkeys(FileKind, 365.0), FileKind.SNAPSHOT: 60.0, FileKind.CLEANUP: 730.0}

_NOW = datetime.now(UTC)


def run(storage: Path, *, newest: int = 1, dry_run: bool = False, **days: float) -> PruneReport:
    limits = {kind: days.get(kind.value, most) for kind, most in DAYS.items() if days.get(kind.value, most)}
    layout = Layout(storage, scene.CLUSTER)
    return prune(layout, PruningLimits(days=limits, keep_newest=newest), now=datetime.now(UTC), dry_run=dry_run)


def id_of(days: float) -> str:
    return f"{ago(days):%Y%m%dT%H%M%SZ}-00000001"


def ago(days: float) -> datetime:
    return _NOW - timedelta(days=days)


def write(storage: Path, where: str, content: dict[str, Any], cluster: str = scene.CLUSTER) -> Path:
    path = storage / cluster / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"format": 1, "cluster": cluster, **content}))
    return path


def snapshot(storage: Path, days: float, cluster: str = scene.CLUSTER) -> Path:
    id_, none = id_of(days), {"name": "", "rows": 0, "sha256": ""}
    seen = dict.fromkeys(("bytes", "groups", "seen", "not_described"), 0)
    members = {**none, **seen, "reasons": {}, "carried_from": [], "not_carried": {}}
    manifest = SnapshotManifest.from_json(
        {
            **dict.fromkeys(("groups", "failed_groups", "rows"), 0),
            **dict.fromkeys(("started_at", "observed_at"), ago(days).isoformat()),
            **dict.fromkeys(("complete", "sees_all_topics"), True),
            "format": 1,
            "snapshot_id": id_,
            "cluster": cluster,
            "kafka_cluster_id": None,
            "airflow_run": "",
            "missing_brokers": {},
            "scope": {},
            "files": [],
            "members": members,
            "subscriptions": none,
        }
    )
    return write(storage, f"manifests/{id_}.json", manifest.to_json(), cluster)


def restore(storage: Path, days: float, *group_ids: str, behind: float = 0) -> Path:
    """Write the record of a restore.

    :param behind: by how many days the worker's clock was behind.
    """
    run_id = id_of(days + behind)
    groups = [{"group_id": group_id} for group_id in group_ids]
    content = {"run_id": run_id, "what": "restore", "kept_at": ago(days).isoformat(), "groups": groups}
    return write(storage, f"changes/{run_id}-restore-before.json", content)


@pytest.mark.promise(5)
def test_a_restored_group_is_not_planned_again_once_its_record_is_old(admin: FakeAdmin, tmp_path: Path) -> None:
    scene.judged_once(admin, tmp_path, ["a"], ["live"])  # idle for 30 days by its snapshots
    snapshot(tmp_path, 30)
    record = restore(tmp_path, 5, "a")
    restore(tmp_path, 0)
    assert scene.plan(tmp_path, max_share=1)["counts"]["planned"] == 0, "its idle time counts from the restore"
    assert run(tmp_path, change=3).removed["change"] == ()
    assert record.exists()
    assert scene.plan(tmp_path, max_share=1)["counts"]["planned"] == 0


@pytest.mark.parametrize(
    ("at", "shown", "other", "newest", "days", "kept"),
    [
        (65, [70, 0], [], 1, {}, False),
        (65, [70, 0], [], 2, {}, True),
        (65, [70, 0], [], 1, {"snapshot": 0.0}, True),
        (40, [35, 0], [], 1, {"snapshot": 30.0}, False),
        (40, [35, 0], [70], 1, {"snapshot": 30.0}, True),
        (40, [], [], 1, {}, True),
    ],
    ids=[
        "no snapshot from before it is left",
        "one is left among the newest",
        "snapshots are never removed",
        "all snapshots are from after it",
        "another connection's folder has one",
        "as old as snapshots may be",
    ],
)
def test_what_restarts_an_idle_time_outlives_the_snapshots_from_before_it(
    tmp_path: Path, at: int, shown: list[int], other: list[int], newest: int, days: dict[str, float], kept: bool
) -> None:
    paths = [restore(tmp_path, day) for day in (at, *range(newest))]
    for day in shown:
        snapshot(tmp_path, day)
    for day in other:
        snapshot(tmp_path, day, "standby")
    for dry_run in (True, False):
        found = run(tmp_path, newest=newest, dry_run=dry_run, **{"change": 20.0, "cleanup": 20.0, **days})
        assert len(found.removed["change"]) + len(found.removed["cleanup"]) == (0 if kept else 1)
    assert paths[0].exists() is kept


def test_the_idle_time_of_a_restore_counts_from_the_time_that_clean_ups_believe(tmp_path: Path) -> None:
    """The clock of the worker was behind, and the newest snapshot told the time."""
    record = restore(tmp_path, 10, behind=80)
    restore(tmp_path, 0)
    snapshot(tmp_path, 30)
    run(tmp_path, change=15)
    assert record.exists()


def test_a_pruning_that_fails_at_a_snapshot_leaves_the_records_that_outlive_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest, record = snapshot(tmp_path, 70), restore(tmp_path, 65)
    snapshot(tmp_path, 0)
    restore(tmp_path, 0)
    unlink = Path.unlink

    def refuse(path: Path, **how: bool) -> None:
        if path == manifest:
            raise PermissionError(13, "denied")
        unlink(path, **how)

    monkeypatch.setattr(Path, "unlink", refuse)
    limits = PruningLimits(days={FileKind.CHANGE: 20, FileKind.SNAPSHOT: 60}, keep_newest=1)
    with pytest.raises(StorageError, match="denied"):
        prune(Layout(tmp_path, scene.CLUSTER), limits, now=datetime.now(UTC), dry_run=False)
    assert record.exists()


@pytest.mark.parametrize(("ended", "kept"), [(-20, True), (5, True), (80, False)])
@pytest.mark.parametrize("folder", ["plans", "prune_plans"])
@pytest.mark.promise(2)
def test_a_backup_is_kept_for_as_long_after_the_last_deletion_as_the_limit_says(
    tmp_path: Path, folder: str, ended: float, kept: bool
) -> None:
    """A plan may wait for months: a group that it deleted yesterday has no older backup than that."""
    backups = []
    for days, end in ((100, ended), (0, -1)):
        plan_id = id_of(days)
        write(tmp_path, f"{folder}/{plan_id}.json", {"plan_id": plan_id, "expires_at": ago(end).isoformat()})
        backups.append(write(tmp_path, f"backups/{plan_id}.json", {"plan_id": plan_id}))
    assert len(run(tmp_path, cleanup=60).removed["cleanup"]) == (0 if kept else 1)
    assert backups[0].exists() is kept


def test_records_that_outlive_snapshots_in_any_case_are_not_read_each_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By count: a year of snapshots keeps a year of records, and each of them was a request of every pruning."""
    snapshot(tmp_path, 59)
    snapshot(tmp_path, 0)
    old = restore(tmp_path, 65)
    records = [restore(tmp_path, day) for day in range(50)]
    read, real = list[str](), Storage.read

    def noted(storage: Storage, path: Path, *part: int) -> bytes | None:
        read.append(path.name)
        return real(storage, path, *part)

    monkeypatch.setattr(Storage, "read", noted)
    assert run(tmp_path, change=1).removed["change"] == (old.name[:25],)
    assert read == [old.name]
    assert all(path.exists() for path in records)


@pytest.mark.parametrize("kind", ["restore", "keep-alive"])
def test_the_result_of_a_dry_run_is_nothing_that_clean_ups_go_by(tmp_path: Path, kind: str) -> None:
    """With the snapshots of a folder that nobody uses any more, it stayed for good."""
    snapshot(tmp_path, 59)
    snapshot(tmp_path, 0)
    run_id = id_of(5)
    content: dict[str, Any] = {"run_id": run_id, "what": kind, "dry_run": True, "counts": {}, "groups": []}
    if kind == "keep-alive":  # its record has them in any case
        content |= {"kept_at": ago(5).isoformat(), "kept_until": ago(-2).isoformat()}
    path = write(tmp_path, f"changes/{run_id}-{kind}-result.json", content)
    restore(tmp_path, 0)
    assert run(tmp_path, change=3).removed["change"] == (run_id,)
    assert not path.exists()


def test_the_result_of_a_dry_run_of_a_reset_by_a_distance_moves_nothing_twice(tmp_path: Path) -> None:
    run_id = id_of(5)
    content = {"run_id": run_id, "what": "reset", "dry_run": True, "task_run": "d/r/t/-1", "shift_by": -2, "groups": []}
    path = write(tmp_path, f"changes/{run_id}-result.json", content)
    restore(tmp_path, 0)
    assert run(tmp_path, change=3).removed["change"] == (run_id,)
    assert not path.exists()


MINE, OTHER = "aBcDeFgHiJkLmNoPqRsTuV", "zYxWvUtSrQpOnMlKjIhGfE"


@pytest.mark.parametrize(
    ("named", "taken", "newest", "kept"),
    [
        (MINE, [OTHER], OTHER, False),
        (MINE, [MINE], MINE, True),
        (MINE, [MINE, OTHER], OTHER, True),
        (MINE, [OTHER, MINE], MINE, True),
        (None, [OTHER], OTHER, True),
    ],
    ids=["of another cluster", "of this one", "switched since", "switched to it", "by a version that named no cluster"],
)
def test_the_old_snapshots_of_another_cluster_keep_no_record(
    admin: FakeAdmin, tmp_path: Path, named: str | None, taken: list[str], newest: str, kept: bool
) -> None:
    """A folder that nobody uses any more kept each record of all clusters for good, which each deletion reads."""
    template = Layout(tmp_path, scene.CLUSTER).manifest(scene.take_snapshot(tmp_path))
    content = read_json(template, "it", MaintenanceError)
    for days, of in zip((900, 800, 10), (*taken, *[newest] * (3 - len(taken))), strict=True):
        of_other = {"snapshot_id": id_of(days), "cluster": "former", "kafka_cluster_id": of}
        write(tmp_path, f"manifests/{of_other['snapshot_id']}.json", {**content, **of_other}, "former")
    old, _ = restore(tmp_path, 500), restore(tmp_path, 0)
    if named is not None:
        old.write_text(json.dumps({**json.loads(old.read_text()), "kafka_cluster_id": named}))
    assert len(run(tmp_path).removed["change"]) == (0 if kept else 1)
    assert old.exists() is kept


def test_the_folders_of_other_clusters_are_listed_once_and_only_for_a_record_that_is_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By count: each of a storage's prunings listed all snapshots of all clusters twice, for nothing on most days."""
    snapshot(tmp_path, 0)
    snapshot(tmp_path, 900, "former")
    restore(tmp_path, 0)
    listed, real = list[str](), os.scandir

    def noted(folder: Any) -> Any:
        listed.append(str(Path(folder).relative_to(tmp_path)))
        return real(folder)

    monkeypatch.setattr(os, "scandir", noted)
    assert run(tmp_path).removed["change"] == ()
    assert not [folder for folder in listed if folder.startswith("former")]
    old = [restore(tmp_path, days) for days in (500, 400)]
    assert run(tmp_path).removed["change"] == ()
    assert all(path.exists() for path in old)
    assert listed.count("former/manifests") == 1


def test_files_of_a_time_to_come_take_no_place_among_the_newest(tmp_path: Path) -> None:
    """A worker's clock was a year ahead for some hours: after a pause, all backups from before it were removed."""
    ids = map(id_of, (90, 80, -300, -301))
    backups = [write(tmp_path, f"backups/{id_}.json", {"plan_id": id_}) for id_ in ids]
    snapshot(tmp_path, 0)
    assert run(tmp_path, cleanup=60, newest=2).removed["cleanup"] == ()
    assert all(path.exists() for path in backups)
