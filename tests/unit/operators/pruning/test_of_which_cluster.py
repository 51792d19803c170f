"""Of which cluster a record, a result or a clean-up is, and how much of a record is read to know what it is."""

import json
from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import MaintenanceError
from airflow_kafka_groups.storage.file_storage import Storage
from airflow_kafka_groups.storage.json_files import read_json
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.unit.operators import scene
from tests.unit.operators.pruning.test_what_pruning_keeps import MINE, OTHER, id_of, restore, run, snapshot, write

pytestmark = pytest.mark.safety


def test_the_result_that_a_killed_pruning_left_of_a_restore_is_of_its_cluster(admin: FakeAdmin, tmp_path: Path) -> None:
    """Its record went first, and with it the cluster: a folder of another one that is not used kept it for good."""
    template = Layout(tmp_path, scene.CLUSTER).manifest(scene.take_snapshot(tmp_path))
    taken = {**read_json(template, "it", MaintenanceError), "snapshot_id": id_of(900), "kafka_cluster_id": MINE}
    write(tmp_path, f"manifests/{id_of(900)}.json", {**taken, "cluster": "former"}, "former")
    record = restore(tmp_path, 500)
    content = {**json.loads(record.read_text()), "kafka_cluster_id": OTHER, "dry_run": False}
    record.unlink()
    result = write(tmp_path, f"changes/{record.name.replace('before', 'result')}", content)
    restore(tmp_path, 0)
    assert run(tmp_path).removed["change"] == (content["run_id"],)
    assert not result.exists()


def test_the_offsets_that_a_task_set_are_not_read_by_each_pruning_of_a_year(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By length: they stay for a year whatever the limit, and each may have hundreds of megabytes."""
    snapshot(tmp_path, 0)
    groups = [{"group_id": f"g{number}", "kept": None} for number in range(5_000)]
    for days in (200, 0):
        content = {"run_id": id_of(days), "what": "reset", "task_run": "d/r/t/-1", "groups": groups}
        write(tmp_path, f"changes/{id_of(days)}-before.json", content)
    lengths = list[int]()

    real = Storage.read

    def noted(storage: Storage, path: Path, *part: int) -> bytes | None:
        content = real(storage, path, *part)
        lengths.append(len(content or b""))
        return content

    monkeypatch.setattr(Storage, "read", noted)
    assert run(tmp_path, change=30).removed["change"] == ()
    assert 0 < sum(lengths) < 10_000
