"""Every storage but a local disk, through Hadoop's FileSystem: s3a, gs, abfss and hdfs, seen by executors, too."""

from __future__ import annotations

import uuid
from contextlib import closing
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.shown import first_line
from airflow_kafka_groups.spark.errors import SPARK_ERRORS
from airflow_kafka_groups.spark.session.settings import jvm_of, runs_locally
from airflow_kafka_groups.storage.job_files import LocalStorage, Storage

_CREATES_AT_ONCE = frozenset({"s3a", "s3", "s3n", "gs"})
"""Object stores: a file appears when it is complete, and its creation can be conditional. Others rename."""

_IF_ABSENT = "fs.option.create.conditional.overwrite"

_AT_ONCE = 2**20
"""The bytes that come from the JVM at once: it holds them several times over, as bytes and as text."""


def storage_of(spark: SparkSession, root: str) -> Storage:
    """Return the storage of a folder.

    :param root: any path on that file system.
    """
    there = HadoopStorage(spark, root)
    return LocalStorage(there.working_folder()) if there.scheme == "file" else there


class HadoopStorage(Storage):
    """The file system of a folder.

    :param root: any path on that file system.
    """

    _errors: ClassVar[tuple[type[Exception], ...]] = (OSError, UnicodeDecodeError, *SPARK_ERRORS)

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._spark = spark
        self._path = self._java("org.apache.hadoop.fs.Path")
        try:
            self._fs: Any = self._path(root).getFileSystem(spark._jsc.hadoopConfiguration())
        except SPARK_ERRORS as exc:
            raise StorageError(f"{root}: {first_line(exc)}. {_remedy(root)}") from exc

    def _java(self, name: str) -> Any:
        # By its full name: otherwise the JVM searches every jar for the classes "org", "org.apache" ...
        return getattr(jvm_of(self._spark, "access to files"), name)

    @cached_property
    def scheme(self) -> str:
        """The scheme of its URI."""
        return str(self._fs.getUri().getScheme())

    def working_folder(self) -> Path:
        """Return the folder of the JVM, where relative paths begin."""
        return Path(str(self._fs.getWorkingDirectory().toUri().getPath()))

    def _parent(self, path: str) -> str | None:
        parent = self._path(path).getParent()
        return None if parent is None else str(parent.toString())

    def _folders(self, folder: str) -> list[str]:
        return self._listed(folder, "isDirectory")

    def _files(self, folder: str) -> list[str]:
        return self._listed(folder, "isFile")

    def _listed(self, folder: str, is_asked_for: str) -> list[str]:
        there = self._path(folder)
        statuses = self._fs.listStatus(there) if self._fs.exists(there) else ()
        return sorted(str(status.getPath().getName()) for status in statuses if getattr(status, is_asked_for)())

    def _files_below(self, folder: str) -> dict[tuple[str, str], int]:
        found: dict[tuple[str, str], int] = {}
        if self._fs.exists(self._path(folder)):
            # An object store answers a thousand files at once, in whatever folders.
            every = self._fs.listFiles(self._path(folder), True)
            while every.hasNext():
                status = every.next()
                path = status.getPath()
                found[str(path.getParent().getName()), str(path.getName())] = int(status.getLen())
        return found

    def _read(self, path: str) -> bytes:
        with closing(self._fs.open(self._path(path))) as stream:
            content = bytearray()
            while part := stream.readNBytes(_AT_ONCE):
                content += part
            # A JVM that has no memory left for its answer sends an empty one.
            if (end := stream.getPos()) != len(content):
                raise OSError(f"{len(content)} of {end} bytes came from the JVM: give it more spark.driver.memory")
            return bytes(content)

    def _footer(self, path: str) -> tuple[set[str], int]:
        # By the JVM's reader: Spark itself would run a job.
        place = self._path(path), self._spark._jsc.hadoopConfiguration()
        file = self._java("org.apache.parquet.hadoop.util.HadoopInputFile").fromPath(*place)
        with closing(self._java("org.apache.parquet.hadoop.ParquetFileReader").open(file)) as reader:
            fields = reader.getFileMetaData().getSchema().getFields()
            return {str(each.getName()) for each in fields}, int(reader.getRecordCount())

    def _exists(self, path: str) -> bool:
        return bool(self._fs.exists(self._path(path)))

    def _written_at(self, path: str) -> datetime:
        return datetime.fromtimestamp(self._fs.getFileStatus(self._path(path)).getModificationTime() / 1000, UTC)

    def _write(self, path: str, content: bytes, *, replace: bool) -> None:
        with closing(self._fs.create(self._path(path), replace)) as stream:
            for at in range(0, len(content), _AT_ONCE):
                stream.write(bytearray(content[at : at + _AT_ONCE]))

    def _create(self, path: str, content: bytes) -> None:
        at_once = self.scheme in _CREATES_AT_ONCE
        written = self._path(path if at_once else self.beside(path, f"_{uuid.uuid4().hex}.tmp"))
        created = self._fs.createFile(written).overwrite(False).recursive().opt(_IF_ABSENT, "true").build()
        with closing(created) as stream:
            stream.write(bytearray(content))
        if not at_once and not self._fs.rename(written, self._path(path)):  # it exists
            self._fs.delete(written, False)

    def _create_whole(self, path: str, content: bytes, aside: str) -> bool:
        self._write(aside, content, replace=True)
        self._fs.mkdirs(self._path(path).getParent())
        return not self.exists(path) and bool(self._fs.rename(self._path(aside), self._path(path)))

    def _delete(self, path: str, *, recursive: bool) -> None:
        if not self._fs.delete(self._path(path), recursive) and self._fs.exists(self._path(path)):
            raise OSError("the storage keeps it: check permissions")


def _remedy(root: str) -> str:
    if root.startswith("s3://"):
        return (
            f"Spark outside of EMR knows S3 as s3a://: give s3a://{root.removeprefix('s3://')}, or set "
            "spark.hadoop.fs.s3.impl=org.apache.hadoop.fs.s3a.S3AFileSystem, with the package hadoop-aws"
        )
    return "Check the path, and that Spark has the connector of this storage (--packages) and its credentials"


def require_shared(spark: SparkSession, path: str) -> None:
    """Verify that executors on other machines can access the local folder of a job's output.

    Tasks that write to their own disks leave a folder that looks complete but is empty on the driver.

    :param spark: the session; with a local master, or a path on any other storage, nothing is tested.
    :param path: the output. A small file next to it is written, read by an executor, and deleted.

    Raises ``StorageError`` if executors cannot read what the driver writes.
    """
    storage = storage_of(spark, path)
    if not storage.is_local or runs_locally(spark):
        return
    seen = storage.beside(path, f"kafka-groups-shared-{uuid.uuid4().hex}")
    storage.write_text(seen, "seen\n")
    try:
        spark.read.text(seen).collect()
    except SPARK_ERRORS as exc:
        raise StorageError(
            f"{path} is on the driver's own disk: the executors do not see what is written there ({first_line(exc)}). "
            "Give a storage that all machines reach, such as s3a:// or hdfs://, or a path that all have mounted"
        ) from exc
    finally:
        storage.delete_file(seen)
