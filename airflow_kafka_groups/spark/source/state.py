"""The folder of a stream: what its batches observed, and a token by which executors recognise the driver's folder."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.spark.source.options import KEYS, SOURCE_COLUMNS, VALUES
from airflow_kafka_groups.storage.disk import DISK
from airflow_kafka_groups.storage.schemas import arrow_schema

STREAM, DRIVER = "stream", "driver"
"""What an offset has beside its batch: the number of the stream, and that of the driver that planned the batch."""

_MARK = "driver"
_URI = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
"""How one begins; ``file:/folder``, as Hadoop writes it, has one slash."""


class ChangeState:
    """The observations of batches, and the token.

    They are in ``<folder>/batch-<number>-<stream>-<driver>/bucket-<number>.parquet``, by the offset of their batch: a
    driver that was replaced and wakes up does not touch what the next one saw. Where no file can be created
    exclusively, each task's file has a name of its own, ``bucket-<number>.<random>.parquet``.

    :param folder: path or URI, as supported by pyarrow's file systems.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def mark(self) -> str:
        """Write a new token and return it: executors that see another one do not see the driver's folder."""
        token = uuid.uuid4().hex
        system, root = self._place()
        system.create_dir(root, recursive=True)
        with system.open_output_stream(f"{root}/{_MARK}") as file:
            file.write(token.encode())
        return token

    def require_shared(self, token: str) -> None:
        """Check that this machine sees the driver's folder.

        Raises ``ConfigurationError`` if the token is missing or another one.
        """
        system, root = self._place()
        try:
            with system.open_input_stream(f"{root}/{_MARK}") as file:
                found = file.read().decode()
        except FileNotFoundError:
            found = None
        if found == token:
            return
        problem = (
            f"the executor on {os.uname().nodename} does not see what the driver writes there: give a storage that "
            "all machines reach, such as s3:// or hdfs://, or a path that all have mounted"
        )
        if found is not None:
            problem += "; or another query uses this folder: give each its own"
        raise ConfigurationError("state.path", self._folder, problem)

    def load(self, bucket: int, offset: Mapping[str, int]) -> Any:
        """Return a batch's observations of a bucket; ``None`` if there are none.

        Raises ``ConfigurationError`` for a file that was not written completely, and if two tasks saw different things.
        """
        paths = self._written(bucket, offset)
        found = list(map(self._read, paths))
        if any(_commits(one) != _commits(found[0]) for one in found[1:]):
            raise ConfigurationError(
                "state.path",
                self._folder,
                f"two tasks saw the groups of {paths[0]} differently at the same time, and it is not known whose rows "
                "were returned: restart the query with an empty checkpoint and folder",
            )
        return found[0] if found else None

    def _read(self, path: str) -> Any:
        try:
            return pq.read_table(path, filesystem=self._place()[0], schema=arrow_schema(SOURCE_COLUMNS))
        except pa.ArrowInvalid as exc:  # only a file system without hard links, such as SMB, leaves a part of one
            raise ConfigurationError(
                "state.path",
                self._folder,
                f"{path} is not complete ({str(exc).splitlines()[0]}), as after a task that was killed while it wrote "
                "it: delete the file and restart the query",
            ) from exc

    def save(self, bucket: int, offset: Mapping[str, int], seen: Any) -> Any:
        """Store a batch's observations, complete or not at all, and return those that are stored.

        Of two tasks with the same bucket, such as a speculative one, the first one's stay: Spark may have its rows.
        """
        system, path = self._place(_name(offset), f"bucket-{bucket}.parquet")
        if isinstance(system, fs.LocalFileSystem):  # also one that a URI names
            data = pa.BufferOutputStream()
            pq.write_table(seen, data)
            with suppress(FileExistsError):
                DISK.create(Path(path), data.getvalue().to_pybytes())
        else:
            self._save_beside(bucket, offset, seen)
        found = self.load(bucket, offset)
        if found is None:
            again = "two tasks read the same groups at once, and both gave way: restart the query"
            raise ConfigurationError("state.path", self._folder, again)
        return found

    def _save_beside(self, bucket: int, offset: Mapping[str, int], seen: Any) -> None:
        """Store observations where no file can be created exclusively, and remove them if another task's are there.

        A task that finds only its own may return them. One that finds another's gives way.
        """
        if self._written(bucket, offset):
            return
        system, folder = self._place(_name(offset))
        system.create_dir(folder, recursive=True)
        name = uuid.uuid4().hex
        aside, own = f"{folder}/{name}.tmp", f"{folder}/bucket-{bucket}.{name}.parquet"
        pq.write_table(seen, aside, filesystem=system)
        system.move(aside, own)
        if len(self._written(bucket, offset)) > 1:
            system.delete_file(own)

    def _written(self, bucket: int, offset: Mapping[str, int]) -> list[str]:
        """Return the paths of what tasks have written of a bucket, sorted."""
        system, folder = self._place(_name(offset))
        if isinstance(system, fs.LocalFileSystem):
            path = f"{folder}/bucket-{bucket}.parquet"
            return [path] if system.get_file_info(path).is_file else []
        listed = system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        named = [info.path for info in listed if info.base_name.startswith(f"bucket-{bucket}.")]
        return sorted(path for path in named if path.endswith(".parquet"))

    def drop(self, offset: Mapping[str, int]) -> None:
        """Remove the observations of a batch."""
        system, folder = self._place(_name(offset))
        system.delete_dir_contents(folder, missing_dir_ok=True)

    def forget(self, offset: Mapping[str, int]) -> None:
        """Remove what the stream observed before the batch that this one follows, whichever driver planned it."""
        system, root = self._place()
        own = re.compile(rf"batch-(\d+)-{offset.get(STREAM)}-.*")
        for info in system.get_file_info(fs.FileSelector(root, allow_not_found=True)):
            if (named := own.fullmatch(info.base_name)) and int(named[1]) < offset["batch"] - 1:
                system.delete_dir(info.path)

    def _place(self, *below: str) -> tuple[Any, str]:
        system, root = _file_system(self._folder)
        return system, "/".join((root, *below))


def _commits(seen: Any) -> Any:
    """Return what later batches compare."""
    return seen.select([*KEYS, *VALUES]).sort_by([(key, "ascending") for key in KEYS])


def _name(offset: Mapping[str, int]) -> str:
    return "-".join(["batch", *(str(offset[name]) for name in ("batch", STREAM, DRIVER) if name in offset)])


@cache
def _file_system(folder: str) -> tuple[Any, str]:
    if _URI.match(folder):
        try:
            system, root = fs.FileSystem.from_uri(folder)
        except pa.ArrowInvalid as exc:
            remedy = "give s3:// for S3, gs://, abfss://, hdfs://, or a path that all machines have mounted"
            raise ConfigurationError("state.path", folder, f"pyarrow reads it, not Hadoop ({exc}): {remedy}") from None
        return system, str(root)
    return fs.LocalFileSystem(), folder
