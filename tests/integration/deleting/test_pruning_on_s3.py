"""Pruning of files on a real S3 server, where Hadoop's S3A and consoles keep an empty object for each folder."""

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
import s3fs
from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from airflow_kafka_groups.change.file_pruning import FileKind, FileSet, PruneReport, PruningLimits, prune
from airflow_kafka_groups.doctor.finding import Report
from airflow_kafka_groups.doctor.storage import PROBE_FOLDER, examine_storage
from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.layout import Layout
from tests.lab.servers.object_store import BUCKET, ObjectStore, attach_s3, reached

OLD = "20200101T000000Z-00000001"
VERDICTS = f"tables/verdicts/snapshot_id={OLD}"


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as store, reached(store):
        attach_s3(skip_instance_cache=True)
        s3fs.S3FileSystem.clear_instance_cache()  # without a connection's id, paths have one of their own
        yield store


@pytest.fixture
def layout(store: ObjectStore) -> Layout:
    from airflow.sdk import ObjectStoragePath

    return Layout(ObjectStoragePath(f"s3://{BUCKET}/{uuid.uuid4().hex}"), "prod")


def put(layout: Layout, where: str, content: bytes = b"") -> None:
    """Write an object as another program does, such as Spark."""
    base: Any = layout.base
    boto3.client("s3").put_object(Bucket=BUCKET, Key=f"{base.key}/prod/{where}", Body=content)


def put_snapshot(layout: Layout, snapshot_id: str) -> None:
    manifest = {"format": 1, "snapshot_id": snapshot_id, "cluster": "prod"}
    put(layout, f"manifests/{snapshot_id}.json", json.dumps(manifest).encode())
    put(layout, f"data/{snapshot_id}/part-00000.parquet", b"rows")
    put(layout, f"tables/verdicts/snapshot_id={snapshot_id}/part-00000.parquet", b"rows")


def prune_all(layout: Layout) -> PruneReport:
    limits = PruningLimits(days={FileKind.SNAPSHOT: 60}, keep_newest=1)
    return prune(layout, limits, now=datetime.now(UTC), dry_run=False)


@pytest.mark.parametrize(
    "markers",
    [(), (f"data/{OLD}/",), (f"{VERDICTS}/",), ("data/", "tables/", "tables/verdicts/", f"data/{OLD}/")],
    ids=["none", "of the rows", "of the verdicts", "of all folders"],
)
def test_an_old_snapshot_is_removed_with_the_empty_objects_of_its_folders(
    layout: Layout, markers: tuple[str, ...]
) -> None:
    newest = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-00000002"
    for snapshot_id in (OLD, newest):
        put_snapshot(layout, snapshot_id)
    for marker in markers:
        put(layout, marker)
    found = prune_all(layout)
    assert found.foreign == {}
    assert found.removed["snapshot"] == (OLD,)
    assert FILES.names(layout.root / "data") == [newest]
    assert FILES.read(layout.manifest(OLD)) is None
    assert prune_all(layout).files == 0


@pytest.mark.safety
def test_what_somebody_adds_to_a_folder_meanwhile_stays(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """All old sets are looked into before the first is removed, and a store may list late."""
    newest, look_into = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-00000002", FileSet.look_into
    for snapshot_id in (OLD, newest):
        put_snapshot(layout, snapshot_id)

    def look_early(file_set: FileSet) -> None:
        look_into(file_set)
        put(layout, f"data/{OLD}/notes.txt", b"mine")

    monkeypatch.setattr(FileSet, "look_into", look_early)
    prune_all(layout)
    assert FILES.read(layout.snapshot_data(OLD) / "notes.txt") == b"mine"


@pytest.mark.safety
def test_the_doctor_removes_its_own_file_only(layout: Layout) -> None:
    """Another doctor may be trying the same storage: without its file, it would find the storage unfit."""
    other = layout.base / PROBE_FOLDER / "0123456789abcdef"
    FILES.create(other, b"one")
    examine_storage(layout.base, Report())
    assert FILES.read(other) == b"one"
    assert FILES.names(layout.base / PROBE_FOLDER) == [other.name]


@pytest.mark.safety
def test_what_the_store_does_not_let_go_is_not_reported_as_removed(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 answers a request to delete several objects with 200, whatever became of each; s3fs looks at no answer."""
    newest, call = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-00000002", s3fs.S3FileSystem._call_s3
    for snapshot_id in (OLD, newest):
        put_snapshot(layout, snapshot_id)

    async def deny(fs: Any, method: str, *arguments: Any, **named: Any) -> Any:
        if method == "delete_objects":
            keys = [each["Key"] for each in named["Delete"]["Objects"]]
            return {"Errors": [{"Key": key, "Code": "AccessDenied", "Message": "Access Denied"} for key in keys]}
        if method == "delete_object":
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "Access Denied"}}, "DeleteObject")
        return await call(fs, method, *arguments, **named)

    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", deny)
    with pytest.raises(StorageError, match="Denied"):
        prune_all(layout)
    assert FILES.read(layout.manifest(OLD)) is not None


@pytest.mark.parametrize("markers", [(), ("_temporary/", "_temporary/0/", "_temporary/0/_temporary/")])
def test_what_a_killed_job_has_left_goes_with_its_snapshot(layout: Layout, markers: tuple[str, ...]) -> None:
    newest = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-00000002"
    for snapshot_id in (OLD, newest):
        put_snapshot(layout, snapshot_id)
    for marker in markers:
        put(layout, f"{VERDICTS}/{marker}")
    put(
        layout,
        f"{VERDICTS}/_temporary/0/_temporary/attempt_202001010000007_0003_m_000000_3/part-00000-5f.parquet",
        b"r",
    )
    found = prune_all(layout)
    assert (found.foreign, found.removed["snapshot"]) == ({}, (OLD,))
    assert FILES.names(layout.root / VERDICTS) == []
    assert FILES.names(layout.root / VERDICTS / "_temporary") == []


@pytest.mark.parametrize("where", [f"members/{OLD}.parquet/part-0", f"subscriptions/{OLD}.parquet/x", f"data/{OLD}"])
def test_what_is_not_what_its_name_says_stays(layout: Layout, where: str) -> None:
    """A folder where a file belongs, and a file where a folder belongs, are not ours."""
    newest = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-00000002"
    put_snapshot(layout, newest)
    put(layout, f"manifests/{OLD}.json", json.dumps({"format": 1, "snapshot_id": OLD, "cluster": "prod"}).encode())
    put(layout, where, b"mine")
    assert prune_all(layout).removed["snapshot"] == (OLD,)
    assert FILES.read(layout.root / where) == b"mine"
