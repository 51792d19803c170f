"""Every storage but a local disk, through Hadoop's FileSystem: s3a, gs, abfss and hdfs, seen by executors, too."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.shown import first_line
from airflow_kafka_groups.spark.session import SPARK_ERRORS, jvm_of, runs_locally
from airflow_kafka_groups.storage.access import storage_errors
from airflow_kafka_groups.storage.file_storage import LocalStorage, Storage

_CREATES_AT_ONCE = frozenset({"s3a", "s3", "s3n", "gs"})
"""Object stores: a file appears when it is complete, and its creation can be conditional. Others rename."""

_IF_ABSENT = "fs.option.create.conditional.overwrite"

_REMEDY = (
    "Check the path, and that Spark has the connector of this storage (--packages) and its credentials. Outside of "
    "EMR, S3 is s3a://"
)
_AT_ONCE = 2**20
"""The bytes that come from the JVM at once: it holds them several times over, as bytes and as text."""


@contextmanager
def _asking_java() -> Iterator[None]:
    try:
        yield
    except SPARK_ERRORS as exc:
        java = exc.java_exception.getClass().getName() if isinstance(exc, Py4JJavaError) else ""
        absent = java in ("java.io.FileNotFoundException", "java.nio.file.NoSuchFileException")
        raise (FileNotFoundError if absent else OSError)(first_line(exc)) from exc


class Hadoop:
    """The file system of a folder, by the JVM's paths; see ``Backend``."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        # By its full name: otherwise the JVM searches every jar for the classes "org", "org.apache" ...
        self.path = getattr(jvm_of(spark, "access to files"), "org.apache.hadoop.fs.Path")
        try:
            self._fs: Any = self.path(root).getFileSystem(spark._jsc.hadoopConfiguration())
            self.scheme = str(self._fs.getUri().getScheme())
        except SPARK_ERRORS as exc:
            raise StorageError(f"{root}: {first_line(exc)}. {_REMEDY}") from exc

    @_asking_java()
    def create(self, path: Any, data: bytes, *, durable: bool = True) -> None:
        """Create a file. Whatever goes wrong, what is there then decides."""
        at_once = self.scheme in _CREATES_AT_ONCE
        written = path if at_once else self.path(path.getParent(), f"_{uuid.uuid4().hex}.tmp")
        try:
            created = self._fs.createFile(written).overwrite(False).recursive().opt(_IF_ABSENT, "true").build()
            with closing(created) as stream:
                self._write(stream, data)
            if not at_once and not self._fs.rename(written, path):
                self._fs.delete(written, False)
                raise FileExistsError(str(path))
        except SPARK_ERRORS as exc:
            if self.is_file(path):
                raise FileExistsError(first_line(exc)) from exc
            raise

    @_asking_java()
    def read(self, path: Any, start: int | None, end: int | None) -> bytes:
        with closing(self._fs.open(path)) as stream:
            stream.seek(start or 0)
            content, left = bytearray(), (end or 2**62) - (start or 0)
            while left and (part := stream.readNBytes(min(_AT_ONCE, left))):
                content += part
                left -= len(part)
            # A JVM that has no memory left for its answer sends an empty one.
            if (read := stream.getPos() - (start or 0)) != len(content):
                raise OSError(f"{len(content)} of {read} bytes came from the JVM: give it more spark.driver.memory")
            return bytes(content)

    @_asking_java()
    def replace(self, path: Any, parts: Iterable[bytes]) -> bool:
        """Write a file. An object store shows it when it is complete, and checks what it got."""
        with closing(self._fs.create(path, True)) as stream:
            for data in parts:
                self._write(stream, data)
        return True

    def _write(self, stream: Any, data: bytes) -> None:
        for at in range(0, len(data), _AT_ONCE):
            stream.write(bytearray(data[at : at + _AT_ONCE]))

    @_asking_java()
    def list(self, folder: Any) -> dict[str, set[bool]]:
        found = [(str(each.getPath().getName()), bool(each.isDirectory())) for each in self._fs.listStatus(folder)]
        return {name: {is_folder} for name, is_folder in sorted(found)}

    @_asking_java()
    def sizes_below(self, folder: Any) -> dict[tuple[str, str], int]:
        """Return the sizes of all files in the folders of a folder: an object store lists a thousand at once."""
        found: dict[tuple[str, str], int] = {}
        every = self._fs.listFiles(folder, True)
        while every.hasNext():
            status = every.next()
            path = status.getPath()
            found[str(path.getParent().getName()), str(path.getName())] = int(status.getLen())
        return found

    def is_file(self, path: Any) -> bool:
        return self._is("isFile", path)

    def is_folder(self, path: Any) -> bool:
        return self._is("isDirectory", path)

    def _is(self, what: str, path: Any) -> bool:
        try:
            return bool(getattr(self._status(path), what)())
        except FileNotFoundError:
            return False

    def describe(self, path: Any) -> tuple[int, datetime]:
        status = self._status(path)
        return int(status.getLen()), datetime.fromtimestamp(status.getModificationTime() / 1000, UTC)

    @_asking_java()
    def _status(self, path: Any) -> Any:
        return self._fs.getFileStatus(path)

    @_asking_java()
    def move(self, path: Any, to: Any) -> None:
        """Move a file to where none is, or leave what is there."""
        # S3 needs no folder for it, and takes a request for each question.
        if not self.scheme.startswith("s3"):
            self._fs.mkdirs(to.getParent())
        try:
            moved = self._fs.rename(path, to)
        except SPARK_ERRORS:
            if not self._fs.exists(to):
                raise
            return
        if not (moved or self._fs.exists(to)):
            raise OSError("the storage leaves it where it is")

    @_asking_java()
    def remove(self, path: Any, *, everything: bool = False) -> None:
        if not self._fs.delete(path, everything) and self._fs.exists(path):
            raise OSError("the storage keeps it: check permissions")

    def remove_folder(self, folder: Any, *, everything: bool) -> None:
        self.remove(folder, everything=everything)

    def sync(self, path: Any) -> None:
        """Return at once: a file that is closed is on several machines."""


def storage_of(spark: SparkSession, root: str) -> Storage:
    """Return the storage of any path."""
    there = Hadoop(spark, root)
    if there.scheme != "file":
        return Storage(there, there.path)
    return LocalStorage(Path(str(there._fs.getWorkingDirectory().toUri().getPath())))  # where relative paths begin


def move(spark: SparkSession, path: str, to: str) -> None:
    """Move a file that Spark has written, within its storage, to a place whose name says what is in the file."""
    there = Hadoop(spark, to)
    with storage_errors("moved", path):
        there.move(there.path(path), there.path(to))


def beside(path: str, name: str) -> str:
    """Return the path of a file in the same folder. Raises ``StorageError`` for the root of a storage."""
    folder, slash, _ = path.rstrip("/").rpartition("/")
    if not path.strip("/") or folder.endswith(("/", ":")):
        raise StorageError(f"{path} is the root of its storage: give a folder in it")
    return f"{folder}{slash}{name}"


def require_shared(spark: SparkSession, path: str) -> None:
    """Verify that executors on other machines can access the local folder of a job's output.

    Tasks that write to their own disks leave a folder that looks complete but is empty on the driver. A small file next
    to the output is written, read by an executor, and deleted.

    Raises ``StorageError`` if executors cannot read what the driver writes.
    """
    storage = storage_of(spark, path)
    if not storage.is_local or runs_locally(spark):
        return
    seen = beside(path, f"kafka-groups-shared-{uuid.uuid4().hex}")
    storage.replace(seen, b"seen\n")
    try:
        spark.read.text(seen).collect()
    except SPARK_ERRORS as exc:
        raise StorageError(
            f"{path} is on the driver's own disk: the executors do not see what is written there ({first_line(exc)}). "
            "Give a storage that all machines reach, such as s3a:// or hdfs://, or a path that all have mounted"
        ) from exc
    finally:
        storage.remove(seen)
