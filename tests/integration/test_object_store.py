"""Files on a real S3 server, by ``ObjectStoragePath`` and s3fs: exclusive, read back, and absent only if absent."""

import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_kafka_groups.change.file_pruning import FileKind, find_sets
from airflow_kafka_groups.exceptions import FileExistsAlreadyError, StorageError
from airflow_kafka_groups.ledger.journal import Journal
from airflow_kafka_groups.observe.snapshot.table import GroupRows, write_rows
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.json_files import write_json
from airflow_kafka_groups.storage.layout import Layout
from tests.lab.servers.object_store import BUCKET, ObjectStore, attach_s3, reached
from tests.records import complete_history, history_before

pytestmark = pytest.mark.safety

_RACE = """
import sys
from upath import UPath  # what ObjectStoragePath is made of; Airflow takes seconds to import
from airflow_kafka_groups.exceptions import FileExistsAlreadyError
from airflow_kafka_groups.storage.file_storage import FILES
from tests.records import complete_history, history_before
base, me = UPath(sys.argv[1]), sys.argv[2]
FILES.create(base / f"ready-{me}", b"x")
sys.stdin.readline()
for number in range(20):
    try:
        FILES.create(base / f"{number}.json", me.encode())
        print(number)
    except FileExistsAlreadyError:
        pass
"""


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as store, reached(store):
        attach_s3(skip_instance_cache=True)
        yield store


@pytest.fixture
def base(store: ObjectStore) -> Iterator[Any]:
    from airflow.sdk import ObjectStoragePath

    yield ObjectStoragePath(f"s3://{BUCKET}/{uuid.uuid4().hex}")
    store.heal()


def put_by_another(base: Any, name: str, data: bytes) -> None:
    """Write an object as another process does: the file system of this one knows nothing of it."""
    import boto3

    boto3.client("s3").put_object(Bucket=BUCKET, Key=f"{base.key}/{name}", Body=data)


def test_a_file_is_created_once_read_back_and_listed(base: Any) -> None:
    FILES.create(base / "a" / "1.json", b"one")
    FILES.create(base / "a" / "1.json", b"one")  # the same again: an answer was lost
    with pytest.raises(FileExistsAlreadyError):
        FILES.create(base / "a" / "1.json", b"other")
    FILES.create(base / "a" / "2.json", b"two")
    assert FILES.read(base / "a" / "1.json") == b"one"
    assert FILES.names(base / "a") == ["1.json", "2.json"]
    assert FILES.names(base) == ["a"]


def test_what_is_not_there_is_absent(base: Any) -> None:
    assert FILES.read(base / "a" / "1.json") is None
    assert FILES.names(base / "a") == []


def test_what_another_process_has_written_since_the_folder_was_listed_is_found(base: Any) -> None:
    FILES.create(base / "1.json", b"one")
    assert FILES.names(base) == ["1.json"]
    put_by_another(base, "2.json", b"two")
    assert FILES.read(base / "2.json") == b"two"
    assert FILES.names(base) == ["1.json", "2.json"]


def test_no_run_begins_on_a_store_that_ignores_the_condition(base: Any) -> None:
    journal, at = Journal(base, "cluster-1"), datetime(2026, 11, 1, tzinfo=UTC)
    journal.begin({"run_id": "1", "request_id": None}, at, after=history_before(journal))
    base.fs.connect()
    events, name = base.fs.s3.meta.events, "before-call.s3.PutObject"

    def ignore(params: dict[str, Any], **_: Any) -> None:
        del params["headers"]["If-None-Match"]

    events.register(name, ignore)
    try:
        with pytest.raises(StorageError, match="the storage replaced it; nothing was deleted"):
            journal.begin({"run_id": "2", "request_id": None}, at, after=history_before(journal))
    finally:
        events.unregister(name, ignore)
    assert [run.number for run in history_before(journal).runs] == [1]


def test_of_two_processes_that_write_at_once_exactly_one_succeeds(base: Any) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _RACE, str(base), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ,
        )
        for name in ("a", "b")
    ]
    while len(FILES.names(base)) < 2:
        assert all(writer.poll() is None for writer in writers)
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"\n")
        writer.stdin.flush()
    won = [writer.communicate(timeout=60)[0].split() for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0]
    for number in range(20):
        winners = [name for name, mine in zip(("a", "b"), won, strict=True) if b"%d" % number in mine]
        assert [FILES.read(base / f"{number}.json")] == [name.encode() for name in winners]


@pytest.mark.parametrize("kind", ["error", "error_after", "cut", "slow"])
def test_a_moment_s_trouble_is_survived(base: Any, store: ObjectStore, kind: str) -> None:
    store.let_fail(base.key, kind, status=503, seconds=0.5)
    FILES.create(base / "1.json", b"one")
    store.let_fail(base.key, kind, status=503, seconds=0.5)
    assert FILES.read(base / "1.json") == b"one"


def test_a_storage_that_denies_or_is_down_is_an_error_and_never_absence(base: Any, store: ObjectStore) -> None:
    FILES.create(base / "1.json", b"one")
    store.let_fail(base.key, "error", 1_000, status=403)
    for call in (FILES.read, FILES.names, lambda path: FILES.create(path, b"two")):
        with pytest.raises(StorageError):
            call(base / "2.json")
    store.kill()
    try:
        for call in (FILES.read, FILES.names, lambda path: FILES.create(path, b"two")):
            with pytest.raises(StorageError):
                call(base / "2.json")
    finally:
        store.start()
    assert FILES.read(base / "1.json") == b"one"


@pytest.mark.parametrize("count", [1, 1_000])
@pytest.mark.promise(10)
def test_the_404_of_a_proxy_is_an_error_and_never_absence(base: Any, store: ObjectStore, count: int) -> None:
    """An ingress that has lost its server answers everything so. A stop switch or an answer would be "not there"."""
    FILES.create(base / "1.json", b"one")
    for call in (lambda: FILES.read(base / "1.json"), lambda: FILES.names(base), lambda: FILES.names(base / "none")):
        store.let_fail(base.key, "error", count, status=404, code="")
        with pytest.raises(StorageError):
            call()
        store.heal()
    assert (FILES.read(base / "1.json"), FILES.read(base / "2.json")) == (b"one", None)


def test_a_folder_whose_listing_says_nothing_is_no_folder_without_files(base: Any, store: ObjectStore) -> None:
    """The rows of a snapshot would be pruned, and its manifest would stay and stop every job."""
    snapshot_id, layout = "20260101T000000Z-00000000", Layout(base, "prod")
    FILES.create(layout.manifest(snapshot_id), b"{}")
    FILES.create(layout.snapshot_data(snapshot_id) / "part-0.parquet", b"rows")
    store.let_fail("manifests", "error", 1_000, status=404, code="")
    with pytest.raises(StorageError):
        find_sets(layout, FileKind.SNAPSHOT)
    store.heal()
    (found,) = find_sets(layout, FileKind.SNAPSHOT)
    assert len(found.found) == 2


@pytest.mark.parametrize("code", ["ConditionalRequestConflict", "OperationAborted"])
def test_a_conflict_of_two_writes_is_tried_again_until_one_of_them_is_done(
    base: Any, store: ObjectStore, code: str
) -> None:
    """S3 answers 409 while another write of the name is under way: also while the first try of this very one is."""
    store.let_fail(base.key, "error", status=409, code=code)
    FILES.create(base / "1.json", b"one")
    store.let_fail(base.key, "error", 2, status=409, code=code)
    with pytest.raises(FileExistsAlreadyError):
        FILES.create(base / "1.json", b"other")
    store.let_fail(base.key, "error", 1_000, status=409, code=code)
    with pytest.raises(StorageError, match=code if code.startswith("Cond") else "OSError"):
        FILES.create(base / "2.json", b"two")


@pytest.mark.parametrize("code", ["PreconditionFailed", ""])
def test_a_condition_that_does_not_hold_says_that_the_file_exists_in_any_words(
    base: Any, store: ObjectStore, code: str
) -> None:
    """AWS also names the condition in its answer, for which s3fs looks; MinIO and others do not."""
    FILES.create(base / "1.json", b"one")
    store.let_fail(base.key, "error", status=412, code=code)
    FILES.create(base / "1.json", b"one")  # the first try was written, and its answer was lost
    store.let_fail(base.key, "error", status=412, code=code)
    with pytest.raises(FileExistsAlreadyError):
        FILES.create(base / "1.json", b"other")
    store.let_fail(base.key, "error", status=412, code=code)
    with pytest.raises(StorageError, match="says that it exists"):
        FILES.create(base / "2.json", b"two")
    assert FILES.read(base / "2.json") is None


@pytest.mark.parametrize(("start", "end"), [(0, 3), (2, 5), (8, 10)])
def test_a_part_of_a_file_is_that_part(base: Any, start: int, end: int) -> None:
    """The second argument of s3fs is a version."""
    FILES.create(base / "1.json", b"0123456789")
    assert FILES.read(base / "1.json", start, end) == b"0123456789"[start:end]
    assert FILES.read(base / "2.json", start, end) is None


def test_an_empty_file_is_there(base: Any) -> None:
    """An empty file named STOP is enough to stop a deletion."""
    FILES.create(base / "STOP", b"")
    assert FILES.read(base / "STOP") == b""


def test_a_bucket_that_does_not_exist_is_an_error_and_never_an_empty_one(store: ObjectStore) -> None:
    from airflow.sdk import ObjectStoragePath

    nowhere = ObjectStoragePath("s3://no-such-bucket/folder")
    for call in (FILES.read, FILES.names, lambda path: FILES.create(path, b"x")):
        with pytest.raises(StorageError, match="bucket"):
            call(nowhere / "1.json")
    with pytest.raises(StorageError):
        complete_history(nowhere, "a-cluster")


@pytest.mark.parametrize(
    "write",
    [
        lambda layout: write_json(layout.root / "changes", "record.json", {}),
        lambda layout: write_rows(layout, "20260301T120000Z-00000001", GroupRows()),
    ],
    ids=["a report or a record", "the rows of a snapshot"],
)
def test_a_bucket_that_does_not_exist_is_not_made(store: ObjectStore, write: Callable[[Layout], object]) -> None:
    """s3fs makes the bucket with the folder: a name with a typo would have offsets in a bucket that nobody set up."""
    import boto3
    from airflow.sdk import ObjectStoragePath

    with pytest.raises(StorageError, match="bucket"):
        write(Layout(ObjectStoragePath("s3://no-such-bucket/kafka"), "prod"))
    assert [bucket["Name"] for bucket in boto3.client("s3").list_buckets()["Buckets"]] == [BUCKET]
