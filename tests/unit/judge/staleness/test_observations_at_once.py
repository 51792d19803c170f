"""Jobs that reduce one snapshot at the same time, each with observations of the same name and content."""

import threading
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.spark.jobs.judge_staleness import parse_arguments, run_here
from airflow_kafka_groups.storage.file_storage import LocalStorage, Storage
from tests.histories.judged import judge, write_hour
from tests.histories.lake import CLUSTER

TABLE = f"{CLUSTER}/tables/observations"


def test_what_another_job_moved_to_its_place_meanwhile_is_not_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other job reads it right then: without it, it would reduce the snapshot again, and take away ours."""
    write_hour(tmp_path, 0)
    create, remove, replace = Storage.create, Storage.remove, Storage.replace
    moved: list[str] = []

    def moved_by_another(storage: Storage, path: str, content: bytes, *, durable: bool) -> None:
        replace(storage, path, content)
        moved.append(path)
        create(storage, path, content, durable=durable)

    def kept(call: Any) -> Any:
        def called(storage: Storage, path: str, *more: Any) -> None:
            assert path not in moved
            call(storage, path, *more)

        return called

    monkeypatch.setattr(Storage, "create", moved_by_another)
    monkeypatch.setattr(Storage, "remove", kept(remove))
    monkeypatch.setattr(Storage, "replace", kept(replace))
    assert judge(tmp_path)["snapshots_reduced"] == 1
    assert len(moved) == 2, "the observations and their manifest"


class Remote(LocalStorage):
    """A storage whose answers take a while: each wait for one costs as much as many of them at once."""

    is_local = False


def test_many_snapshots_are_stored_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        write_hour(tmp_path, number)
    together, create = threading.Barrier(3, timeout=30), Storage.create

    def created(storage: Storage, path: str, content: bytes, *, durable: bool) -> None:
        if "/summaries/observations/" in path:
            together.wait()
        create(storage, path, content, durable=durable)

    monkeypatch.setattr(Storage, "create", created)
    asked = parse_arguments(["--base", str(tmp_path), "--cluster", CLUSTER, "--min-idle-seconds", "3600"])
    assert run_here(lambda _: Remote(), asked)["snapshots_reduced"] == 3
