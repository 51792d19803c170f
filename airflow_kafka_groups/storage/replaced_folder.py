"""A folder of Parquet that a job writes by itself, in place of what was there, and verifies afterwards."""

from __future__ import annotations

import io
from collections.abc import Iterable
from hashlib import sha256

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.storage.job_files import JobFiles
from airflow_kafka_groups.storage.paths import is_data_file
from airflow_kafka_groups.storage.storage import Storage

_ROWS_OF_A_FILE = 1_000_000


class ReplacedFolder:
    """The files of one write; what the folder had before is deleted."""

    def __init__(self, storage: Storage, output: str) -> None:
        self._storage, self._output = storage, output
        self._own, self._written = JobFiles(), dict[str, bytes]()
        storage.delete_folder(output)

    def write(self, schema: pa.Schema, tables: Iterable[pa.Table], rows_of_a_file: int = _ROWS_OF_A_FILE) -> None:
        """Write tables as files of at least so many rows; without a row, one file says which columns there are.

        Memory holds one table, and the compressed bytes of a file.
        """
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
                self._storage.write_bytes(f"{self._output}/{name}", content)
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
