"""File access through Hadoop's FileSystem, as Spark does: file, s3a, gs, abfss and hdfs."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_kafka_groups.contracts.local_files import create_local
from airflow_kafka_groups.spark.errors import SPARK_ERRORS, StorageError, first_line
from airflow_kafka_groups.spark.files import local_disk
from airflow_kafka_groups.spark.session import jvm_of

_CREATES_AT_ONCE = frozenset({"s3a", "s3", "s3n", "gs"})
"""Object stores: a file appears when it is complete, and its creation can be conditional. Others rename."""

_IF_ABSENT = "fs.option.create.conditional.overwrite"

_READERS = 8
_AT_ONCE = 2**20
"""The bytes that come from the JVM at once: it holds them several times over, as bytes and as text."""


class Storage:
    """The file system of a folder.

    :param root: any path on that file system.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.spark = spark
        self._path = self._java("org.apache.hadoop.fs.Path")
        try:
            self._fs: Any = self._path(root).getFileSystem(spark._jsc.hadoopConfiguration())
        except SPARK_ERRORS as exc:
            raise StorageError(f"{root}: {first_line(exc)}. {_remedy(root)}") from exc

    def _java(self, name: str) -> Any:
        # By its full name: otherwise the JVM searches every jar for the classes "org", "org.apache" ...
        return getattr(jvm_of(self.spark, "access to files"), name)

    @property
    def is_local(self) -> bool:
        """Whether the files are on a local disk, according to their URI."""
        return self.scheme == "file"

    @cached_property
    def scheme(self) -> str:
        """The scheme of its URI."""
        return str(self._fs.getUri().getScheme())

    def local(self, path: str) -> Path | None:
        """Return the path of a file on a local disk, as Hadoop understands it; ``None`` for any other storage."""
        if not self.is_local:
            return None
        below = path.removeprefix("file:").removeprefix("//")
        if below.startswith("/") and os.path.normpath(below) == below:
            return Path(below)
        # Relative to the JVM's folder, wherever Python is by now; and ".." in Hadoop leads back through no link.
        with _named(f"{path} cannot be found"):
            return Path(str(self._fs.makeQualified(self._path(path)).toUri().getPath()))

    def unchecked(self, path: str) -> Path | None:
        """Return the path of a file on a local disk if Hadoop has no checksum of it, which only Hadoop compares."""
        here = self.local(path)
        return None if here is None or local_disk.checksum_of(here).exists() else here

    def beside(self, path: str, name: str) -> str:
        """Return the path of a file in the same folder."""
        if (parent := self._path(path).getParent()) is None:
            raise StorageError(f"{path} is the root of its storage: give a folder in it")
        return str(self._path(parent, name).toString())

    def folders(self, folder: str) -> list[str]:
        """Return the sorted names of the folders in a folder; none if it does not exist."""
        return self._names(folder, local_disk.folders, "isDirectory")

    def files(self, folder: str) -> list[str]:
        """Return the sorted names of the files in a folder; none if it does not exist."""
        return self._names(folder, local_disk.files, "isFile")

    def _names(self, folder: str, of_local: Callable[[Path], list[str]], is_asked_for: str) -> list[str]:
        here = self.local(folder)
        with _named(f"{folder} cannot be listed"):
            if here is not None:
                return of_local(here)
            there = self._path(folder)
            statuses = self._fs.listStatus(there) if self._fs.exists(there) else ()
            return sorted(str(status.getPath().getName()) for status in statuses if getattr(status, is_asked_for)())

    def files_below(self, folder: str) -> dict[tuple[str, str], int]:
        """Return the sizes of all files in the folders of a folder by (their folder's name, name)."""
        found: dict[tuple[str, str], int] = {}
        here = self.local(folder)
        with _named(f"{folder} cannot be listed"):
            if here is not None:
                return local_disk.files_below(here)
            if self._fs.exists(self._path(folder)):
                # An object store answers a thousand files at once, in whatever folders.
                every = self._fs.listFiles(self._path(folder), True)
                while every.hasNext():
                    status = every.next()
                    path = status.getPath()
                    found[str(path.getParent().getName()), str(path.getName())] = int(status.getLen())
        return found

    def read_bytes(self, path: str) -> bytes:
        """Read a file."""
        with _named(f"{path} cannot be read"):
            if (here := self.unchecked(path)) is not None:
                return here.read_bytes()
            with closing(self._fs.open(self._path(path))) as stream:
                content = bytearray()
                while part := stream.readNBytes(_AT_ONCE):
                    content += part
                # A JVM that has no memory left for its answer sends an empty one.
                if (end := stream.getPos()) != len(content):
                    raise OSError(f"{len(content)} of {end} bytes came from the JVM: give it more spark.driver.memory")
                return bytes(content)

    def read_text(self, path: str) -> str:
        """Read a small file."""
        with _named(f"{path} cannot be read"):
            return self.read_bytes(path).decode()

    def read_texts(self, paths: Sequence[str], *, skip_unreadable: bool = False) -> list[str]:
        """Read many small files at once, in the order of their paths.

        :param skip_unreadable: return an empty string for a file that cannot be read, instead of raising.
        """

        def read(path: str) -> str:
            with suppress(StorageError) if skip_unreadable else nullcontext():
                return self.read_text(path)
            return ""

        with ThreadPoolExecutor(_READERS, thread_name_prefix="read") as readers:
            return list(readers.map(read, paths))

    @contextmanager
    def parquet(self, path: str) -> Iterator[Any]:
        """Provide the JVM's reader of a Parquet file's footer within a block; Spark itself would run a job."""
        with _named(f"{path} cannot be read"):
            place = self._path(path), self.spark._jsc.hadoopConfiguration()
            file = self._java("org.apache.parquet.hadoop.util.HadoopInputFile").fromPath(*place)
            with closing(self._java("org.apache.parquet.hadoop.ParquetFileReader").open(file)) as reader:
                yield reader

    def has_only(self, path: str, columns: Collection[str]) -> bool:
        """Return whether a file is Parquet that has no other columns than these."""
        try:
            with self.parquet(path) as file:
                return {str(each.getName()) for each in file.getFileMetaData().getSchema().getFields()} <= {*columns}
        except StorageError:
            return False

    def count_rows(self, paths: Iterable[str]) -> int:
        """Count the rows of Parquet files, from their footers."""
        rows = 0
        for path in paths:
            with self.parquet(path) as file:
                rows += int(file.getRecordCount())
        return rows

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists."""
        here = self.local(path)
        with _named(f"{path} cannot be looked for"):
            return local_disk.is_there(here) if here is not None else bool(self._fs.exists(self._path(path)))

    def written_at(self, path: str) -> datetime:
        """Return when a file was written, by the storage's clock."""
        here = self.local(path)
        with _named(f"{path} cannot be looked for"):
            if here is not None:
                return datetime.fromtimestamp(here.stat().st_mtime, UTC)
            return datetime.fromtimestamp(self._fs.getFileStatus(self._path(path)).getModificationTime() / 1000, UTC)

    def write_text(self, path: str, text: str, *, replace: bool = True) -> None:
        """Write a small file. Without ``replace``, raise ``StorageError`` if it exists."""
        self.write_bytes(path, text.encode(), replace=replace)

    def write_bytes(self, path: str, content: bytes, *, replace: bool = True) -> None:
        """Write a file at once. Without ``replace``, raise ``StorageError`` if it exists."""
        here = self.local(path)
        with _named(f"{path} cannot be written"):
            if here is not None:
                local_disk.write(here, content, replace=replace)
                return
            with closing(self._fs.create(self._path(path), replace)) as stream:
                for at in range(0, len(content), _AT_ONCE):
                    stream.write(bytearray(content[at : at + _AT_ONCE]))

    def move_file(self, path: str, target: str) -> bool:
        """Move a file, creating the target's folder, and return whether it was moved: an existing target stays."""
        here, there = self.local(path), self.local(target)
        with _named(f"{path} cannot be moved to {target}"):
            if here is not None and there is not None:
                return local_disk.move(here, there)
            self._fs.mkdirs(self._path(target).getParent())
            return not self.exists(target) and bool(self._fs.rename(self._path(path), self._path(target)))

    def read_if_there(self, path: str) -> str | None:
        """Read a small file; return ``None`` only if the storage says that there is no such file."""
        return self.read_text(path) if self.exists(path) else None

    def create_text(self, path: str, text: str) -> bool:
        """Create a small file, durably, and read it back; return whether it was created, and not by somebody else.

        A file that exists is never changed. One with the same content counts as created: the answer to an earlier try
        may have been lost.
        """
        problem: Exception | None = None
        try:
            self._create(path, text.encode())
        except (OSError, *SPARK_ERRORS) as exc:  # also when the file exists; what the storage holds now decides
            problem = exc
        found = self.read_if_there(path)
        if found is None:
            raise StorageError(f"{path} cannot be created: {first_line(problem or Exception())}") from problem
        return found == text

    def _create(self, path: str, data: bytes) -> None:
        if (here := self.local(path)) is not None:
            create_local(here, data)
            return
        at_once = self.scheme in _CREATES_AT_ONCE
        written = self._path(path if at_once else self.beside(path, f"_{uuid.uuid4().hex}.tmp"))
        created = self._fs.createFile(written).overwrite(False).recursive().opt(_IF_ABSENT, "true").build()
        with closing(created) as stream:
            stream.write(bytearray(data))
        if not at_once and not self._fs.rename(written, self._path(path)):  # it exists
            self._fs.delete(written, False)

    def delete_file(self, path: str) -> None:
        """Delete a file, if it exists."""
        self._delete(path, recursive=False)

    def delete_folder(self, path: str) -> None:
        """Delete a folder with everything in it, if it exists."""
        self._delete(path, recursive=True)

    def _delete(self, path: str, *, recursive: bool) -> None:
        here = self.local(path)
        with _named(f"{path} cannot be deleted"):
            if here is not None:
                local_disk.remove(here, recursive=recursive)
                return
            if not self._fs.delete(self._path(path), recursive) and self._fs.exists(self._path(path)):
                raise OSError("the storage keeps it: check permissions")


@contextmanager
def _named(problem: str) -> Iterator[None]:
    """Turn Spark's errors within a block into ``StorageError``."""
    try:
        yield
    except (OSError, UnicodeDecodeError, *SPARK_ERRORS) as exc:
        raise StorageError(f"{problem}: {first_line(exc)}") from exc


def _remedy(root: str) -> str:
    if root.startswith("s3://"):
        return (
            "Spark outside of EMR knows S3 as s3a://: give --base as s3a://…, or set "
            "spark.hadoop.fs.s3.impl=org.apache.hadoop.fs.s3a.S3AFileSystem, with the package hadoop-aws"
        )
    return "Check --base, and that Spark has the connector of this storage (--packages) and its credentials"
