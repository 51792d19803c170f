"""Files on a local disk, which Python reads and writes by itself: they are where Spark and Hadoop look for them."""

from __future__ import annotations

import tracemalloc
from contextlib import nullcontext
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.spark.hadoop_storage import HadoopStorage, storage_of
from airflow_kafka_groups.storage import job_files as checksums
from airflow_kafka_groups.storage.job_files import LocalStorage
from tests.histories.judged import hour_rows, judge, write_hour
from tests.histories.lake import CLUSTER
from tests.histories.shorthand import ARROW_SCHEMA, SnapshotRow, parquet, snapshot_id

pytestmark = [pytest.mark.spark, pytest.mark.safety]


def test_a_relative_path_is_that_of_the_jvm_wherever_a_notebook_has_gone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began_in, name = Path.cwd(), f"relative-{uuid4().hex}"
    monkeypatch.chdir(tmp_path)
    storage = storage_of(spark, name)
    assert isinstance(storage, LocalStorage)
    assert storage.local(f"{name}/file") == began_in / name / "file"
    try:
        storage.write_text(f"{name}/file", "x")
        assert [row.value for row in spark.read.text(name).collect()] == ["x"]
        assert (storage.files(name), storage.exists(f"{name}/file")) == (["file"], True)
        assert storage.create_text(f"{name}/other", "x")
    finally:
        storage.delete_folder(name)
    assert not (began_in / name).exists()
    assert not list(tmp_path.iterdir())


def test_a_file_that_hadoop_s_checksum_contradicts_is_not_read(spark: SparkSession, tmp_path: Path) -> None:
    """A copy from HDFS has checksums of its own."""
    for number in (0, 1):
        write_hour(tmp_path, number)
    part = tmp_path / CLUSTER / "data" / snapshot_id(1) / "part-00000.parquet"
    content, storage = part.read_bytes(), storage_of(spark, str(part))
    HadoopStorage(spark, str(part)).write_bytes(str(part), content)
    assert judge(tmp_path)["snapshots_reduced"] == 2
    rows: list[SnapshotRow] = [{**row, "committed_offset": 0} for row in hour_rows(1)]
    part.write_bytes(parquet(rows, ARROW_SCHEMA))
    with pytest.raises(StorageError, match=r"part-00000\.parquet cannot be read: .*Checksum error"):
        judge(tmp_path)
    storage.write_bytes(str(part), content)
    judge(tmp_path)


@pytest.mark.parametrize(
    ("checksums", "is_read"),
    [
        (b"", True),
        (b"crc\0\0\0\2", True),
        (b"crd\0\0\0\2\0wrong", True),
        (b"crc\0\0\0\2\0", False),
        (b"crc\0\0\0\0\0wrong", False),
        (b"crc\0\0\0\2\0wrong", False),
        (None, True),
    ],
)
def test_a_file_is_read_where_hadoop_reads_it(
    spark: SparkSession, tmp_path: Path, checksums: bytes | None, is_read: bool
) -> None:
    file, beside = tmp_path / "x", tmp_path / ".x.crc"
    file.write_bytes(bytes(600))
    beside.mkdir() if checksums is None else beside.write_bytes(checksums)
    for storage in (HadoopStorage(spark, str(file)), LocalStorage()):
        with nullcontext() if is_read else pytest.raises(StorageError):
            assert len(storage.read_bytes(str(file))) == 600


def test_checksums_of_a_damaged_size_take_no_memory() -> None:
    """One bit makes parts of no byte of Hadoop's 512."""
    tracemalloc.start()
    try:
        for size in (0, 1, 512):
            with pytest.raises(OSError, match="Checksum error"):
                checksums.check(bytes(200_000), b"crc\0" + size.to_bytes(4) + b"sum." * 391)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_checksum_of_what_was_there_before_is_of_nothing_that_is_moved_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    storage = storage_of(spark, str(tmp_path))
    HadoopStorage(spark, str(tmp_path)).write_bytes(f"{tmp_path}/x", b"before\n")
    (tmp_path / "x").unlink()
    assert storage.create_whole(f"{tmp_path}/x", b"after\n", aside=f"{tmp_path}/y")
    assert storage.read_text(f"{tmp_path}/x") == "after\n"
    assert [row.value for row in spark.read.text(f"{tmp_path}/x").collect()] == ["after"]


def test_a_local_disk_is_looked_at_by_python_alone(spark: SparkSession, tmp_path: Path) -> None:
    """A JVM in the locale C, as in many containers, finds no file whose path is not ASCII.

    Its "not there" left the summary of a run before in place, and its verdicts beside the new ones.
    """
    base = f"{tmp_path}/ä"
    storage = storage_of(spark, base)
    assert storage.is_local
    storage.write_text(f"{base}/a/x", "x\n")
    assert (storage.exists(base), storage.exists(f"{base}/y"), storage.exists(f"{base}/a/x/y")) == (True, False, False)
    written_at = (tmp_path / "ä" / "a" / "x").stat().st_mtime
    assert storage.written_at(f"{base}/a/x").timestamp() == pytest.approx(written_at, abs=0.001)
    assert (storage.create_text(f"{base}/y", "y\n"), storage.read_if_there(f"{base}/z")) == (True, None)
    (tmp_path / "ä" / ".y.crc").write_bytes(b"of y")
    storage.delete_file(f"{base}/y")
    storage.delete_file(f"{base}/y")
    assert [path.name for path in (tmp_path / "ä").iterdir()] == ["a"]
    with pytest.raises(StorageError, match="/a cannot be deleted: "):
        storage.delete_file(f"{base}/a")
    (tmp_path / "link").symlink_to(tmp_path / "ä" / "a")
    storage.delete_folder(f"{tmp_path}/link")
    assert storage.read_text(f"{base}/a/x") == "x\n"
    storage.delete_folder(base)
    storage.delete_folder(base)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}", "file:///{}", "FILE:{}", "{}/", "{}//."])
def test_every_form_of_a_path_leads_to_one_file(spark: SparkSession, tmp_path: Path, form: str) -> None:
    for name in ("a b", "a%20b", "a#b", "a+b", "ä", "a:b", "_a", ".a"):
        folder = form.format(tmp_path / name)
        storage = storage_of(spark, folder)
        storage.write_text(f"{folder}/x", "x\n")
        assert (tmp_path / name / "x").read_text() == "x\n"
        assert storage.exists(f"{folder}/x")
        assert storage.files(folder) == ["x"]
        assert name in storage.folders(form.format(tmp_path))
        beside = storage.beside(folder, "y")
        storage_of(spark, beside).write_text(beside, "y\n")
        assert (tmp_path / "y").read_text() == "y\n"


def test_a_path_that_is_none_to_hadoop_is_none_without_a_session(spark: SparkSession, tmp_path: Path) -> None:
    """What is between two slashes and the next one is a machine's name to it."""
    with pytest.raises(StorageError):
        storage_of(spark, f"/{tmp_path}")
    for path in (f"/{tmp_path}/x", f"file:/{tmp_path}/x"):
        with pytest.raises(StorageError, match="it is on a machine"):
            LocalStorage().write_text(path, "x")
        with pytest.raises(StorageError, match="it is on a machine"):
            LocalStorage().beside(path, "x")
