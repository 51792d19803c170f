"""The folder of a stream: what its batches observed, and a token by which executors recognise the driver's folder."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from airflow_kafka_groups.contracts.local_files import create_local
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.spark.source.rows import arrow_schema

_MARK = "driver"


class ChangeState:
    """The observations of batches, ``<folder>/batch-<number>-<owner>/bucket-<number>.parquet``, and the token.

    The owner is ``<stream>-<driver>``, with the driver that planned the batch: one that was replaced and wakes up does
    not touch what the next one saw. In offsets of earlier versions it is the stream only, or there is none.

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

    def load(self, bucket: int, batch: int, owner: str | None = None) -> Any:
        """Return a batch's observations of a bucket; ``None`` if there are none.

        Raises ``ConfigurationError`` for a file that was not written completely.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        system, path = self._place(_batch(batch, owner), f"bucket-{bucket}.parquet")
        if not system.get_file_info(path).is_file:
            return None
        try:
            return pq.read_table(path, filesystem=system, schema=arrow_schema())
        except pa.ArrowInvalid as exc:  # only a file system without hard links, such as SMB, leaves a part of one
            raise ConfigurationError(
                "state.path",
                self._folder,
                f"{path} is not complete ({str(exc).splitlines()[0]}), as after a task that was killed while it wrote "
                "it: delete the file and restart the query",
            ) from exc

    def save(self, bucket: int, batch: int, seen: Any, owner: str | None = None) -> Any:
        """Store a batch's observations, complete or not at all, and return those that are stored.

        Of two tasks with the same bucket, such as a speculative one, the first one's stay: Spark may have its rows.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq
        from pyarrow import fs

        system, path = self._place(_batch(batch, owner), f"bucket-{bucket}.parquet")
        if isinstance(system, fs.LocalFileSystem):  # also one that a URI names
            data = pa.BufferOutputStream()
            pq.write_table(seen, data)
            with suppress(FileExistsError):
                create_local(Path(path), data.getvalue().to_pybytes())
            return self.load(bucket, batch, owner)
        system.create_dir(path.rpartition("/")[0], recursive=True)
        aside = f"{path}.{uuid.uuid4().hex}"
        pq.write_table(seen, aside, filesystem=system)
        if system.get_file_info(path).is_file:
            system.delete_file(aside)
        else:
            system.move(aside, path)
        return self.load(bucket, batch, owner)

    def drop(self, batch: int, owner: str | None = None) -> None:
        """Remove the observations of a batch."""
        system, folder = self._place(_batch(batch, owner))
        system.delete_dir_contents(folder, missing_dir_ok=True)

    def forget(self, below: int, stream: int | None = None) -> None:
        """Remove the observations of batches of the stream with a lower number, whichever driver planned them."""
        from pyarrow import fs

        system, root = self._place()
        for info in system.get_file_info(fs.FileSelector(root, allow_not_found=True)):
            number = info.base_name.removeprefix("batch-").partition("-")[0]
            if not number.isdigit() or int(number) >= below:
                continue
            own = _batch(int(number), None if stream is None else str(stream))
            if info.base_name == own or (stream is not None and info.base_name.startswith(f"{own}-")):
                system.delete_dir(info.path)

    def _place(self, *below: str) -> tuple[Any, str]:
        system, root = _file_system(self._folder)
        return system, "/".join((root, *below))


def _batch(number: int, owner: str | None) -> str:
    return f"batch-{number}" if owner is None else f"batch-{number}-{owner}"


@cache
def _file_system(folder: str) -> tuple[Any, str]:
    from pyarrow import fs

    if "://" in folder:
        system, root = fs.FileSystem.from_uri(folder)
        return system, str(root)
    return fs.LocalFileSystem(), folder
