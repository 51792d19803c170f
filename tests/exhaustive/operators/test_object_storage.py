"""The whole chain on ``ObjectStoragePath``, as on S3 or GCS."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import ObjectStoragePath
from airflow.sdk.timezone import utcnow

from airflow_kafka_groups.kafka.models import GroupState
from airflow_kafka_groups.operators.backup import BackupGroupOffsetsOperator, RestoreDrillOperator
from airflow_kafka_groups.operators.pruning import PruneFilesOperator
from airflow_kafka_groups.operators.report import CleanupReportOperator
from airflow_kafka_groups.sensors.groups import DeleteGroupsSensor
from tests.fakes.busy_store import busy_store
from tests.fakes.groups import FakeGroup
from tests.unit.operators.scene import Site


def open_as_object(field: str, value: Any) -> ObjectStoragePath:
    return ObjectStoragePath(value) if "://" in str(value) else busy_store(Path(value))[1]


def test_every_step_works_on_object_storage(site: Site) -> None:
    site.patch.setattr("airflow_kafka_groups.hooks.storage.open_path", open_as_object)
    site.admin.groups = {name: FakeGroup() for name in ("a", "b", "live")}
    snapshot_id = site.take_snapshot()
    site.judge(snapshot_id, stale=("a", "b"))
    planned = site.plan(max_share=1)
    assert planned["plan_path"].startswith("busy://")
    site.back_up(planned)
    done = site.apply(planned)
    assert sorted(site.admin.deleted) == ["a", "b"]
    assert DeleteGroupsSensor(task_id="s", audit_path=done["audit_path"]).poke({})
    report = site.run(CleanupReportOperator, plan_id=planned["plan_id"])
    assert (report["outcomes"], report["runs"]) == ({"deleted": 2}, 1)


def test_backups_drills_and_pruning_work_on_object_storage(site: Site) -> None:
    site.patch.setattr("airflow_kafka_groups.hooks.storage.open_path", open_as_object)
    site.admin.groups = {"a": FakeGroup(), "live": FakeGroup(state=GroupState.STABLE, members=1)}
    made = site.run(BackupGroupOffsetsOperator)
    assert site.run(RestoreDrillOperator, plan_id=made["plan_id"])["restored"] == 2

    older, newer = sorted(site.take_snapshot() for _ in range(2))
    site.patch.setattr("airflow_kafka_groups.storage.layout.utc_now", lambda: utcnow() + timedelta(days=100))
    listings = site.folder / "listings"  # without a new file, the clock is taken to be ahead
    listings.mkdir()
    (listings / f"{utcnow() + timedelta(days=99):%Y%m%dT%H%M%SZ}-00000000.json").write_text('{"format": 1}')
    found = site.run(PruneFilesOperator, keep_newest=1, dry_run=False)
    assert (found["removed"]["snapshot"], found["files"], found["foreign"]) == (1, 4, {})
    root = site.folder
    assert [path.stem for path in (root / "manifests").iterdir()] == [newer]
    assert [path.name for path in (root / "data").iterdir()] == [newer], older
