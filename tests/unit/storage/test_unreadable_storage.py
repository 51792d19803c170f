"""A storage that fails while snapshots are read says nothing about them: nobody is told to delete their manifests.

Without its manifest a snapshot no longer counts, and with it the signs of life in it.
"""

import errno
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.judge.staleness import observations
from airflow_kafka_groups.storage.file_storage import Storage
from tests.histories.judged import judge, write_hour

pytestmark = pytest.mark.safety


@pytest.mark.parametrize(
    "problem",
    [
        PermissionError(errno.EACCES, os.strerror(errno.EACCES)),
        OSError(errno.EIO, os.strerror(errno.EIO)),
        pa.ArrowMemoryError("malloc of size 64 failed"),
    ],
    ids=["permission", "disk", "memory"],
)
def test_a_local_file_that_cannot_be_read_is_no_damaged_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    def fail(*_: Any) -> None:
        raise problem

    write_hour(tmp_path, 0)
    monkeypatch.setattr(pq, "read_metadata", fail)
    with pytest.raises(StorageError, match=r"part-00000\.parquet cannot be read: ") as failed:
        judge(tmp_path)
    assert "delete" not in str(failed.value)


def test_a_file_elsewhere_that_cannot_be_read_is_no_damaged_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Storage.read_bytes

    def refused(storage: Storage, path: str) -> bytes:
        if "/data/" in path:
            raise StorageError(f"{path} cannot be read: AccessDeniedException: expired token")
        return read(storage, path)

    write_hour(tmp_path, 0)
    monkeypatch.setattr(Storage, "read_bytes", refused)
    with pytest.raises(StorageError, match=r"part-00000\.parquet cannot be read: .*expired token") as failed:
        judge(tmp_path)
    assert "delete" not in str(failed.value)


@pytest.mark.parametrize("problem", [pa.ArrowMemoryError("malloc of size 64 failed"), MemoryError()])
def test_observations_are_not_made_again_for_want_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    """They would be deleted, and made three times, each of which takes more memory than to read them."""

    def fail(*_: Any, **__: Any) -> None:
        raise problem

    write_hour(tmp_path, 0)
    judge(tmp_path)
    (stored,) = tmp_path.glob("*/tables/observations/*/part-*.parquet")
    with monkeypatch.context() as patched:
        patched.setattr(pq.ParquetFile, "read_row_groups", fail)
        with pytest.raises(StorageError, match=rf"{stored.name} cannot be read: (malloc|MemoryError)"):
            judge(tmp_path)
    assert judge(tmp_path)["snapshots_reduced"] == 0


def test_a_snapshot_that_needs_more_memory_than_there_is_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError

    write_hour(tmp_path, 0)
    monkeypatch.setattr(observations, "combined", fail)
    with pytest.raises(StorageError, match=r"no memory left for the rows of snapshot .*: give this process more"):
        judge(tmp_path)
