"""Folders are made where a storage has any, and an error of a storage comes with what to do about it."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.maintenance.storage import storage_errors
from airflow_kafka_groups.maintenance.storage_access import make_folder


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_of_a_full_disk_the_remedy_is_room(tmp_path: Path, number: int) -> None:
    with (
        pytest.raises(StorageError, match=r"Make room there, or choose another storage_path$"),
        storage_errors("written", tmp_path),
    ):
        raise OSError(number, "No space left on device")


@pytest.mark.parametrize(("protocol", "made"), [("s3", 0), ("gs", 0), ("abfss", 0), ("hdfs", 1), ("file", 1)])
def test_no_folder_is_made_where_that_would_make_a_bucket(protocol: str, made: int) -> None:
    calls: list[Any] = []
    folder: Any = SimpleNamespace(protocol=protocol, mkdir=lambda **how: calls.append(how))
    make_folder(folder)
    assert len(calls) == made
