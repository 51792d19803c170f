"""What a job in a task may delete and must not overlook on object stores."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import attach
from fsspec.implementations.memory import MemoryFileSystem  # type: ignore[import-untyped]
from s3fs import S3FileSystem

from airflow_kafka_groups.exceptions import ArgumentError, FileExistsAlreadyError
from airflow_kafka_groups.spark.plain_jobs import run_plain_job
from airflow_kafka_groups.storage.file_storage import storage_below
from airflow_kafka_groups.storage.job_outputs import require_replaceable
from tests.histories.lake import CLUSTER
from tests.histories.shorthand import snapshot_id

OLDEST = f"{CLUSTER}/manifests/{snapshot_id(0)}.json"


class Azure(MemoryFileSystem):  # type: ignore[misc]
    """A container with a hierarchical namespace, in which a folder is read as an empty file."""

    protocol = "abfss"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **more: Any) -> bytes:
        """Return nothing of a folder."""
        return b"" if self.isdir(path) else bytes(super().cat_file(path, start, end, **more))


def judged(base: Any, *more: str, cluster: str = CLUSTER) -> dict[str, Any]:
    arguments = ["--base", str(base), "--cluster", cluster, "--min-idle-seconds", "3600", *more]
    return run_plain_job(["judge_staleness", *arguments], base)


@pytest.mark.safety
def test_an_object_where_a_job_would_replace_a_folder_is_not_deleted(bucket: Any) -> None:
    storage = storage_below(bucket, str(bucket))
    bucket.fs.pipe_file(f"{bucket.path}/out", b"somebody else's")
    for name in (OLDEST, "out"):
        with pytest.raises(ArgumentError, match="which this job did not write and would delete"):
            require_replaceable(storage, f"{bucket}/{name}", ["group_id"])
    storage.remove_folder(f"{bucket}/out", everything=True)
    bucket.fs.invalidate_cache()
    assert bucket.fs.cat_file(f"{bucket.path}/out") == b"somebody else's"


def test_a_folder_on_azure_is_no_file() -> None:
    attach("abfss", conn_id="hierarchical", fs=Azure())
    base = ObjectStoragePath("abfss://hierarchical@box/kafka")
    storage = storage_below(base, str(base))
    base.fs.pipe_file(f"{base.path}/out/part-0.parquet", b"rows")
    assert (storage.files(f"{base}/out"), storage.is_file(f"{base}/out")) == (["part-0.parquet"], False)
    assert storage.is_file(f"{base}/out/part-0.parquet")
    assert storage.exists(f"{base}/out")
    assert not storage.exists(f"{base}/nothing")


def test_empty_objects_that_stand_for_folders_are_no_files(bucket: Any) -> None:
    for folder in ("data", f"data/{snapshot_id(0)}", "data/20251231T000000Z-0123abcd", "manifests"):
        bucket.fs.pipe_file(f"{bucket.path}/{CLUSTER}/{folder}/", b"")
    assert judged(bucket)["skipped"] == []


@pytest.mark.safety
def test_an_object_is_created_at_once_and_one_that_is_there_stays(bucket: Any) -> None:
    """Each request is waited for, and a first judgement of a long history makes thousands."""
    storage, place = storage_below(bucket, str(bucket)), f"{bucket}/{CLUSTER}/tables/one.parquet"
    storage.create(place, b"one")
    storage.create(place, b"one")  # an answer was lost
    with pytest.raises(FileExistsAlreadyError):
        storage.create(place, b"two")
    assert storage.read_bytes(place) == b"one"
    size, written_at = storage.describe(place)
    assert size == 3
    assert abs(datetime.now(UTC) - written_at) < timedelta(minutes=1)


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Return the methods of S3 that s3fs will call, each with its key."""
    asked = list[tuple[str, str]]()
    call = S3FileSystem._call_s3

    async def counted(self: Any, method: str, *more: Any, **named: Any) -> Any:
        asked.append((method, named.get("Key", named.get("Prefix", "")).partition("/kafka-groups/")[2]))
        return await call(self, method, *more, **named)

    monkeypatch.setattr(S3FileSystem, "_call_s3", counted)
    return asked


def test_a_judgement_asks_for_no_file_that_is_not_there_and_for_none_twice(
    bucket: Any, requests: list[tuple[str, str]]
) -> None:
    """Each request is waited for, and takes milliseconds of the processor."""
    judged(bucket, cluster="*")
    requests.clear()
    judged(bucket, cluster="*")
    read = Counter(key for method, key in requests if method == "get_object" and "/verdicts/" not in key)
    assert len(read) == 3 * 3, "of each snapshot, its manifest, and its observations and theirs"
    assert set(read.values()) == {1}


def test_observations_are_not_looked_for_before_they_are_written(bucket: Any, requests: list[tuple[str, str]]) -> None:
    judged(bucket)
    of_files: dict[str, list[str]] = {}
    for method, key in requests:
        if "/observations/" in key and key.endswith(".parquet"):
            of_files.setdefault(key, []).append(method)
    assert list(of_files.values()) == 3 * [["put_object", "get_object"]], "read where it is used"
