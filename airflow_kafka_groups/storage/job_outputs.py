"""A folder of Parquet that a job writes in place of what was there and verifies, with checks beforehand."""

from __future__ import annotations

import io
import json
import re
import secrets
from collections.abc import Collection, Iterable
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING

from airflow_kafka_groups.exceptions import ArgumentError, JobError, StorageError
from airflow_kafka_groups.storage.access import storage_errors
from airflow_kafka_groups.storage.file_storage import Storage
from airflow_kafka_groups.storage.paths import is_data_file

if TYPE_CHECKING:
    import pyarrow as pa

_OF_A_JOB = re.compile(r"part-\d{15}-")
"""How the names of a job's files begin: with 15 digits of its own. Spark's are those of a task, and shorter."""


class JobFiles:
    """The files of one write. A committer with file names of its own names nobody."""

    def __init__(self) -> None:
        self.prefix = f"part-{secrets.randbelow(10**15):015}"
        """How their names begin."""

    def name(self, number: int) -> str:
        """Return the name of a file that the job writes by itself."""
        return f"{self.prefix}-{number:05}.parquet"

    def require_own(self, output: str, files: Iterable[str], did: str) -> None:
        """Raise ``JobError`` if there are files of another job.

        :param files: the paths of the files below the output.
        :param did: what the other job did, for the message.
        """
        for path in files:
            name = path.rpartition("/")[2]
            if _OF_A_JOB.match(name) and not name.startswith(f"{self.prefix}-"):
                raise JobError(f"{output} has {path} of another job, which {did} at the same time. Run it again")


_WRITTEN_BY_SPARK = re.compile(r"part-\d+-.+")
"""The names of Spark's own data files. Those of snapshots and observations have another form."""

_MADE_BY_SPARK = ("_temporary", ".spark-staging-", "__magic")
"""How the names of folders begin in which Spark writes, on S3 by Hadoop's committer. Others, such as ``_delta_log``,
are of other table formats."""


def require_replaceable(storage: Storage, folder: str, columns: Collection[str], partitioned_by: str = "") -> None:
    """Verify that a folder named by ``--output`` has only what an earlier run wrote: the job replaces all of it.

    :param columns: the names of what the job writes there.
    :param partitioned_by: the column that the folders in it are named after. Default: there are no folders.

    Raises ``ArgumentError`` naming a file or folder that would be deleted, such as the snapshots of a cluster, or a
    table of somebody else's that Spark wrote.
    """
    if storage.is_file(folder):
        raise _not_this_jobs(folder, folder.rpartition("/")[2])
    made = [name for name in storage.files(folder) if name[0] not in "._"]
    folders = [name for name in storage.folders(folder) if not name.startswith(_MADE_BY_SPARK)]
    parts = [name for name in folders if partitioned_by and name.startswith(f"{partitioned_by}=")]
    others = [name for name in made if not _WRITTEN_BY_SPARK.match(name)]
    others += [name for name in folders if name not in parts]
    if not others:
        for name in parts:  # a footer of each: somebody else's table may have these partitions, or others below
            inner = (*storage.folders(f"{folder}/{name}"), *storage.files(f"{folder}/{name}"))
            made += islice((f"{name}/{each}" for each in inner if each[0] not in "._"), 1)
        others = [name for name in made if not _has_only(storage, f"{folder}/{name}", columns)]
    if others:
        raise _not_this_jobs(folder, others[0])


def _not_this_jobs(folder: str, name: str) -> ArgumentError:
    remedy = f"has {name}, which this job did not write and would delete: give a folder that is new or empty"
    return ArgumentError("--output", folder, remedy)


def _has_only(storage: Storage, path: str, columns: Collection[str]) -> bool:
    try:
        return footer_of(storage, path)[0] <= {*columns}
    except StorageError:
        return False


_FOOTER = 1 << 20
"""More than the footers of the files that jobs write."""


def footer_of(storage: Storage, path: str) -> tuple[set[str], int]:
    """Return the names of a Parquet file's columns, and the number of its rows. Raises ``StorageError``."""
    import pyarrow as pa  # not every job needs it
    import pyarrow.parquet as pq

    size = storage.describe(path).size
    end = storage.read(path, max(0, size - _FOOTER), size) or b""
    with storage_errors("read", path):
        footer = pq.read_metadata(pa.BufferReader(end))
        return {*footer.schema.to_arrow_schema().names}, footer.num_rows


def require_own_summary(storage: Storage, path: str, job: str, option: str, value: str) -> None:
    """Verify that the file of a job's summary is a summary of this job, or is not there: the job deletes it.

    ``--result backups/ID.json`` would otherwise cost the backup its manifest.

    :param job: its name, with which its summaries begin. A killed job may have left a part of one.
    :param option: the option that names the file, and its value, for the message.

    Raises ``ArgumentError`` naming the file.
    """
    begins = json.dumps({"job": job}, indent=1).removesuffix("\n}")
    found = (storage.read(path) or b"").decode("utf-8", "replace")[: len(begins)]
    if not begins.startswith(found):
        remedy = f"{path} is there, which this job did not write and would delete: give another name, or move the file"
        raise ArgumentError(option, value, remedy)


_ROWS_OF_A_FILE = 1_000_000


class ReplacedFolder:
    """The files of one write; what the folder had before is deleted."""

    def __init__(self, storage: Storage, output: str) -> None:
        self._storage, self._output = storage, output
        self._own, self._written = JobFiles(), dict[str, bytes]()
        storage.remove_folder(output, everything=True)

    def write(self, schema: pa.Schema, tables: Iterable[pa.Table], rows_of_a_file: int = _ROWS_OF_A_FILE) -> None:
        """Write tables as files of at least so many rows; without a row, one file says which columns there are.

        Memory holds one table, and the compressed bytes of a file.
        """
        import pyarrow.parquet as pq  # a driver without it gets as far as the error that names it

        left = iter(tables)
        rows = rows_of_a_file
        while rows >= rows_of_a_file:
            buffer, rows = io.BytesIO(), 0
            with pq.ParquetWriter(buffer, schema, compression="zstd", write_page_checksum=True) as file:
                for table in left:
                    file.write_table(table)
                    rows += table.num_rows
                    if rows >= rows_of_a_file:
                        break
            if rows or not self._written:
                name, content = self._own.name(len(self._written)), buffer.getvalue()
                self._storage.replace(f"{self._output}/{name}", content)
                self._written[name] = sha256(content).digest()

    def verify(self, what: str, did: str) -> list[str]:
        """Return the names of the files.

        :param what: the rows, and what a job did who wrote them, for the message.

        Raises ``JobError`` if the folder has other files than were written.
        """
        files = [name for name in self._storage.files(self._output) if is_data_file(name)]
        self._own.require_own(self._output, files, did)
        there = {name: sha256(self._storage.read_bytes(f"{self._output}/{name}")).digest() for name in files}
        if there != self._written:
            problem = f"does not have the {what} that were written: another job wrote there"
            raise JobError(f"{self._output} {problem}. Run it again")
        return files
