"""The folder of a stream: what its batches observed, and a token by which executors recognise the driver's folder."""

from __future__ import annotations

import os
import uuid
from functools import cache
from typing import Any

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.spark.source.rows import arrow_schema

_MARK = "driver"


class ChangeState:
    """The observations of batches, ``<folder>/batch-<number>/bucket-<number>.parquet``, and the token.

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

    def load(self, bucket: int, batch: int) -> Any:
        """Return a batch's observations of a bucket; ``None`` if there are none."""
        import pyarrow.parquet as pq

        system, root = self._place()
        path = f"{root}/batch-{batch}/bucket-{bucket}.parquet"
        if not system.get_file_info(path).is_file:
            return None
        return pq.read_table(path, filesystem=system, schema=arrow_schema())

    def save(self, bucket: int, batch: int, seen: Any) -> None:
        """Store a batch's observations by a temporary file and a rename, so that they are complete or absent."""
        import pyarrow.parquet as pq

        system, root = self._place()
        system.create_dir(f"{root}/batch-{batch}", recursive=True)
        path = f"{root}/batch-{batch}/bucket-{bucket}.parquet"
        aside = f"{path}.{uuid.uuid4().hex}"
        pq.write_table(seen, aside, filesystem=system)
        system.move(aside, path)

    def drop(self, batch: int) -> None:
        """Remove the observations of a batch."""
        system, root = self._place()
        system.delete_dir_contents(f"{root}/batch-{batch}", missing_dir_ok=True)

    def forget(self, below: int) -> None:
        """Remove the observations of batches with a lower number."""
        from pyarrow import fs

        system, root = self._place()
        for info in system.get_file_info(fs.FileSelector(root, allow_not_found=True)):
            number = info.base_name.removeprefix("batch-")
            if number != info.base_name and number.isdigit() and int(number) < below:
                system.delete_dir(info.path)

    def _place(self) -> tuple[Any, str]:
        return _file_system(self._folder)


@cache
def _file_system(folder: str) -> tuple[Any, str]:
    from pyarrow import fs

    if "://" in folder:
        system, root = fs.FileSystem.from_uri(folder)
        return system, str(root)
    return fs.LocalFileSystem(), folder
