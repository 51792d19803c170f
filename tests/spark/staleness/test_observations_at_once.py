"""Jobs that reduce one snapshot at the same time, each with observations of the same name and content."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.spark.storage import Storage
from tests.spark.judged import judge, write_hour

pytestmark = pytest.mark.spark


def test_what_another_job_moved_to_its_place_meanwhile_is_not_taken_away(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other job reads it right then: without it, it would reduce the snapshot again, and take away ours."""
    write_hour(tmp_path, 0)
    move, delete = Storage.move_file, Storage.delete_file
    moved: list[str] = []

    def moved_by_another(storage: Storage, path: str, target: str) -> bool:
        storage.write_bytes(target, storage.read_bytes(path))
        moved.append(target)
        return move(storage, path, target)

    def kept(storage: Storage, path: str) -> None:
        assert path not in moved
        delete(storage, path)

    monkeypatch.setattr(Storage, "move_file", moved_by_another)
    monkeypatch.setattr(Storage, "delete_file", kept)
    assert judge(spark, tmp_path)["snapshots_reduced"] == 1
    assert len(moved) == 1
