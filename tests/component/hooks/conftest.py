"""What the tests of jobs in a task share: a folder with snapshots, on a disk and in an object store."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.histories.judged import write_hour
from tests.lab.servers.object_store import BUCKET, ObjectStore, attach_s3, reached


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a folder with three snapshots."""
    for number in range(3):
        write_hour(tmp_path / "store", number)
    return tmp_path / "store"


@pytest.fixture(scope="module")
def s3() -> Iterator[ObjectStore]:
    with ObjectStore() as server, reached(server):
        attach_s3(skip_instance_cache=True)
        yield server


@pytest.fixture
def bucket(s3: ObjectStore, store: Path) -> Any:
    """Return the same folder in an object store."""
    from airflow.sdk import ObjectStoragePath

    base = ObjectStoragePath(f"s3://{BUCKET}/{uuid.uuid4().hex}/kafka-groups")
    for path in filter(Path.is_file, store.rglob("*")):
        base.joinpath(*path.relative_to(store).parts).write_bytes(path.read_bytes())
    return base
