"""Jobs that reduce one snapshot at the same time, each with observations of the same name and content."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.spark.jobs.judge_staleness import JOB, parse_arguments, run
from airflow_kafka_groups.spark.session_on_demand import NoSession
from airflow_kafka_groups.storage.job_files import LocalStorage, Storage
from airflow_kafka_groups.storage.paths import new_id
from tests.histories.judged import judge, write_hour
from tests.histories.lake import CLUSTER

TABLE = f"{CLUSTER}/tables/observations"


def test_what_another_job_moved_to_its_place_meanwhile_is_not_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other job reads it right then: without it, it would reduce the snapshot again, and take away ours."""
    write_hour(tmp_path, 0)
    create, delete = Storage.create_whole, Storage.delete_file
    moved: list[str] = []

    def moved_by_another(storage: Storage, path: str, content: bytes, *, aside: str) -> bool:
        storage.write_bytes(path, content)
        moved.append(path)
        return create(storage, path, content, aside=aside)

    def kept(storage: Storage, path: str) -> None:
        assert path not in moved
        delete(storage, path)

    monkeypatch.setattr(Storage, "create_whole", moved_by_another)
    monkeypatch.setattr(Storage, "delete_file", kept)
    assert judge(tmp_path)["snapshots_reduced"] == 1
    assert len(moved) == 1


def test_what_another_user_s_killed_job_left_and_the_storage_keeps_stops_no_judgement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is hidden, and a judgement needs nothing of it."""
    write_hour(tmp_path, 0)
    left = tmp_path / TABLE / f"_{new_id(datetime.now(UTC) - timedelta(days=2))}"
    left.mkdir(parents=True)
    delete = Storage.delete_folder

    def refused(storage: Storage, path: str) -> None:
        if path.endswith(left.name):
            raise StorageError(f"{path} cannot be deleted: Permission denied")
        delete(storage, path)

    monkeypatch.setattr(Storage, "delete_folder", refused)
    assert judge(tmp_path)["snapshots_reduced"] == 1
    assert left.is_dir()


class Remote(LocalStorage):
    """A storage whose answers take a while: each wait for one costs as much as many of them at once."""

    is_local = False


def test_many_snapshots_are_stored_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        write_hour(tmp_path, number)
    together, write = threading.Barrier(3, timeout=30), Storage.write_text

    def written(storage: Storage, path: str, text: str, *, replace: bool = True) -> None:
        if "/summaries/observations/" in path:
            together.wait()
        write(storage, path, text, replace=replace)

    monkeypatch.setattr(Storage, "write_text", written)
    asked = parse_arguments(["--base", str(tmp_path), "--cluster", CLUSTER, "--min-idle-seconds", "3600"])
    with NoSession(JOB, lambda _: Remote(), "none is needed") as none:
        assert run(none, asked)["snapshots_reduced"] == 3
