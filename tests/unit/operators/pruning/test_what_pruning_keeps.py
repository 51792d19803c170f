"""No pruning of files removes what a later decision about groups goes by."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.file_pruning import FileKind, PruneReport, PruningLimits, prune
from airflow_kafka_groups.storage.file_storage import Storage
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from tests.fakes.admin import FakeAdmin
from tests.fakes.wanted import want
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


def change(storage: Path, days: float) -> Path:
    """Write the record of a change of offsets."""
    run_id = id_of(days)
    return write(storage, f"changes/{run_id}-before.json", {"run_id": run_id, "what": "restore", "groups": []})


@pytest.mark.promise(5)
def test_a_restored_group_is_not_planned_again_once_its_record_is_removed(admin: FakeAdmin, tmp_path: Path) -> None:
    scene.judged_once(admin, tmp_path, ["a"], ["live"])  # idle for 30 days by its snapshots
    snapshot(tmp_path, 30)
    record, _ = change(tmp_path, 5), change(tmp_path, 0)
    want(Layout(tmp_path, "other"), "a", at=ago(5), what="restore")
    assert scene.plan(tmp_path, max_share=1)["counts"]["planned"] == 0, "its idle time counts from the restore"
    assert run(tmp_path, change=3).removed["change"] == (record.name[:25],)
    assert scene.plan(tmp_path, max_share=1)["counts"]["planned"] == 0


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


def test_files_of_a_time_to_come_take_no_place_among_the_newest(tmp_path: Path) -> None:
    """A worker's clock was a year ahead for some hours: after a pause, all backups from before it were removed."""
    ids = map(id_of, (90, 80, -300, -301))
    backups = [write(tmp_path, f"backups/{id_}.json", {"plan_id": id_}) for id_ in ids]
    snapshot(tmp_path, 0)
    assert run(tmp_path, cleanup=60, newest=2).removed["cleanup"] == ()
    assert all(path.exists() for path in backups)


def test_of_the_record_of_a_change_its_beginning_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By length: each may have hundreds of megabytes."""
    snapshot(tmp_path, 0)
    groups = [{"group_id": f"g{number}", "kept": None} for number in range(5_000)]
    for days in (200, 0):
        content = {"run_id": id_of(days), "what": "reset", "groups": groups}
        write(tmp_path, f"changes/{id_of(days)}-before.json", content)
    lengths = list[int]()

    real = Storage.read

    def noted(storage: Storage, path: Path, *part: int) -> bytes | None:
        content = real(storage, path, *part)
        lengths.append(len(content or b""))
        return content

    monkeypatch.setattr(Storage, "read", noted)
    assert run(tmp_path, change=30).removed["change"] == (id_of(200),)
    assert 0 < sum(lengths) < 10_000
