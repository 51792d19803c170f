"""A storage that is no local disk, through Hadoop alone: a file comes from the JVM in parts, and all of it or not."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.observe.history.snapshots import find_history
from airflow_kafka_groups.spark.hadoop_storage import HadoopStorage, storage_of
from airflow_kafka_groups.spark.jobs.judge_staleness import parse_arguments, run
from airflow_kafka_groups.storage.job_files import LocalStorage
from tests.histories.judged import judge, verdicts, write_hour
from tests.histories.lake import CLUSTER
from tests.histories.shorthand import snapshot_id

pytestmark = pytest.mark.spark

MIB = 2**20


def test_a_storage_that_spark_does_not_know_is_told_the_remedy_by_any_path(spark: SparkSession) -> None:
    """Not only --base: also that of an output or a result."""
    with pytest.raises(StorageError, match=r"^s3://bucket/out: .*: give s3a://bucket/out, or set spark.hadoop"):
        storage_of(spark, "s3://bucket/out")
    with pytest.raises(StorageError, match=r"^file:out: .*Relative path.*Check the path, and that Spark has the conn"):
        storage_of(spark, "file:out")


class Recorded:
    """A stream of the JVM's.

    :param lost: the number of the answer in whose place an empty one comes, as from a JVM without memory for it.
    """

    def __init__(self, stream: Any, lost: int | None) -> None:
        self.stream, self.lost = stream, lost
        self.sizes: list[int] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.stream, name)
        return self._counted(found) if name.startswith(("read", "write")) else found

    def _counted(self, call: Any) -> Any:
        def counted(*arguments: Any) -> Any:
            answer = call(*arguments)
            self.sizes.append(len(arguments[0] if answer is None else answer))
            return b"" if len(self.sizes) - 1 == self.lost else answer

        return counted


class Opened:
    """The file system of a storage, whose streams are recorded."""

    def __init__(self, fs: Any, lost: int | None = None) -> None:
        self.fs, self.lost = fs, lost
        self.streams: list[Recorded] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.fs, name)

    def open(self, path: Any) -> Recorded:
        self.streams.append(Recorded(self.fs.open(path), self.lost))
        return self.streams[-1]

    def create(self, path: Any, replace: bool) -> Recorded:
        self.streams.append(Recorded(self.fs.create(path, replace), self.lost))
        return self.streams[-1]


@pytest.fixture
def elsewhere(spark: SparkSession, tmp_path: Path) -> str:
    """Return ``tmp_path`` as a storage of another kind."""
    table = f"t{random.randrange(2**32)}"
    spark._jsc.hadoopConfiguration().set(f"fs.viewfs.mounttable.{table}.link./here", tmp_path.as_uri())
    return f"viewfs://{table}/here"


def test_a_large_file_comes_in_parts_that_the_jvm_has_room_for(spark: SparkSession, elsewhere: str) -> None:
    """At once, a file of 150 MB needs 900 MB of the driver's JVM, which has 1 GB unless somebody says otherwise."""
    storage, content = HadoopStorage(spark, elsewhere), random.randbytes(3 * MIB + 1)
    storage._fs = opened = Opened(storage._fs)
    storage.write_bytes(f"{elsewhere}/x", content)
    assert storage.read_bytes(f"{elsewhere}/x") == content
    written, read = (stream.sizes for stream in opened.streams)
    assert (sum(written), sum(read)) == (len(content), len(content))
    assert max(*written, *read) <= MIB
    storage.write_bytes(f"{elsewhere}/x", b"")
    assert storage.read_bytes(f"{elsewhere}/x") == b""


@pytest.mark.parametrize("lost", [0, 2])
def test_an_answer_that_the_jvm_had_no_memory_for_is_no_end_of_a_file(
    spark: SparkSession, elsewhere: str, lost: int
) -> None:
    storage = HadoopStorage(spark, elsewhere)
    storage.write_bytes(f"{elsewhere}/x", bytes(3 * MIB + 1))
    storage._fs = Opened(storage._fs, lost)
    with pytest.raises(StorageError, match=r"/x cannot be read: .*spark\.driver\.memory"):
        storage.read_bytes(f"{elsewhere}/x")


@pytest.mark.parametrize("root", ["s3a://bucket", "s3a://bucket/", "/"])
def test_what_has_no_folder_around_it_is_told(spark: SparkSession, tmp_path: Path, root: str) -> None:
    with pytest.raises(StorageError, match=f"^{root} is the root of its storage: give a folder in it"):
        (LocalStorage() if root == "/" else HadoopStorage(spark, str(tmp_path))).beside(root, "_backlog_records")


def test_a_cluster_is_judged_as_on_a_local_disk(spark: SparkSession, tmp_path: Path, elsewhere: str) -> None:
    for number in range(3):
        write_hour(tmp_path, number)
    asked = parse_arguments(["--base", elsewhere, "--cluster", CLUSTER, "--min-idle-seconds", "3600"])
    said = run(spark, asked)
    assert (said["snapshots_reduced"], said["groups"]) == (3, 3)
    found = verdicts(tmp_path, 2)
    assert run(spark, asked)["snapshots_reduced"] == 0
    assert judge(tmp_path)["snapshots_reduced"] == 0
    assert verdicts(tmp_path, 2) == found
    assert (tmp_path / CLUSTER / "summaries" / "verdicts" / f"{snapshot_id(2)}.json").exists()


@pytest.mark.parametrize("base", ["s3://bucket/x", "nosuch://bucket/x"])
def test_a_storage_that_spark_does_not_know_is_an_error_with_the_remedy(spark: SparkSession, base: str) -> None:
    with pytest.raises(StorageError, match=r"No FileSystem for scheme.*(s3a|--packages)"):
        find_history(storage_of(spark, base), base, CLUSTER)


@pytest.mark.safety
def test_a_file_is_created_once_on_a_storage_that_renames(spark: SparkSession, tmp_path: Path) -> None:
    """What is done where files cannot be linked, such as HDFS; here on a local disk by Hadoop's own calls."""
    storage = storage_of(spark, str(tmp_path))
    assert storage.create_text(f"{tmp_path}/a/1", "one")
    assert storage.create_text(f"{tmp_path}/a/1", "one"), "the answer to an earlier try may have been lost"
    assert not storage.create_text(f"{tmp_path}/a/1", "two")

    remote = HadoopStorage(spark, str(tmp_path))
    assert remote.create_text(f"{tmp_path}/b/1", "one")
    assert remote.create_text(f"{tmp_path}/b/1", "one")
    assert not remote.create_text(f"{tmp_path}/b/1", "two")
    assert (tmp_path / "b" / "1").read_text() == "one"
    assert remote.files(f"{tmp_path}/b") == ["1"], "nothing is left beside it"
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot be created"):
        storage.create_text(f"{tmp_path}/file/1", "one")
