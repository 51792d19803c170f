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
from airflow_kafka_groups.storage import disk
from tests.histories.judged import judge, write_hour

pytestmark = pytest.mark.safety


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_a_local_file_that_cannot_be_read_is_no_damaged_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    read = disk.read_local

    def refused(path: Path, *part: Any) -> bytes:
        if "/data/" in str(path):
            raise OSError(number, os.strerror(number))
        return read(path, *part)

    write_hour(tmp_path, 0)
    monkeypatch.setattr(disk, "read_local", refused)
    with pytest.raises(StorageError, match=r"part-00000\.parquet could not be read: ") as failed:
        judge(tmp_path)
    assert "delete" not in str(failed.value)


@pytest.mark.parametrize("problem", [pa.ArrowMemoryError("malloc of size 64 failed"), MemoryError()])
def test_observations_are_not_made_again_for_want_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise problem

    write_hour(tmp_path, 0)
    judge(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(pq.ParquetFile, "read", fail)
        with pytest.raises(StorageError, match="no memory left for this judgement: give this process more"):
            judge(tmp_path)
    assert judge(tmp_path)["snapshots_reduced"] == 0


def test_a_snapshot_that_needs_more_memory_than_there_is_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError

    write_hour(tmp_path, 0)
    monkeypatch.setattr(observations, "combined", fail)
    with pytest.raises(StorageError, match=r"no memory left for this judgement: give this process more"):
        judge(tmp_path)
