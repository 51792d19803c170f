"""The rows of snapshots, read from their files by pyarrow, a part at a time, and checked.

Memory holds the bytes of a file, and of its rows a row group and one part of it.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_kafka_groups.exceptions import SnapshotError, StorageError
from airflow_kafka_groups.observe.history.snapshots import half_written
from airflow_kafka_groups.shown import first_line
from airflow_kafka_groups.storage.arrow_values import fill_nulls, to_numpy
from airflow_kafka_groups.storage.file_storage import Storage
from airflow_kafka_groups.storage.layout import StoragePath
from airflow_kafka_groups.storage.manifest import SnapshotFile
from airflow_kafka_groups.storage.schemas import SNAPSHOT_COLUMNS, known_columns, with_missing

_ROWS_AT_ONCE = 250_000
_STRINGS = [each.name for each in SNAPSHOT_COLUMNS if each.kind == "string" and not each.added]
_NO_TIME = 221_845_392_000_000_000
"""The microsecond after the last one that ``contracts.ids.parse_time`` accepts."""


class UnusableFileError(Exception):
    """A snapshot's file whose rows cannot be used. The message is a clause."""


def stored_rows(storage: Storage, snapshot_id: str, file: SnapshotFile, path: StoragePath | str) -> Iterator[pa.Table]:
    """Read a snapshot's file from storage. Raises as ``rows_in`` does, and ``StorageError``."""
    try:
        yield from rows_in(file, snapshot_id, storage.read_bytes(path))
    except (OSError, MemoryError) as exc:  # the snapshot may be sound: to delete its manifest is no remedy
        raise StorageError(f"{path} cannot be read: {first_line(exc)}") from exc


def rows_in(file: SnapshotFile, snapshot_id: str, content: Any) -> Iterator[pa.Table]:
    """Read a snapshot's file in parts, as ``parts_of`` does, and compare all of it with its manifest.

    :param file: what the manifest says of it.
    :param content: its bytes.

    Raises ``SnapshotError`` for a file that cannot be used, at its end if it has other rows than the manifest says.
    """
    rows = lacking = 0
    try:
        for part in parts_of(pa.BufferReader(content), snapshot_id):
            rows += part.num_rows
            lacking += int(lacks_required(part).sum())
            yield part
        if rows != file.rows:
            raise UnusableFileError(f"{rows} rows where its manifest says {file.rows}")
        if lacking:
            raise UnusableFileError(f"{lacking} rows lack a group, a time, a state or another required column")
        if sha256(content).hexdigest() != file.sha256:
            raise UnusableFileError("it has other bytes than its manifest describes")
    except UnusableFileError as exc:
        raise SnapshotError(half_written(snapshot_id, f"{file.name}: {exc}")) from exc


def parts_of(source: Any, snapshot_id: str) -> Iterator[pa.Table]:
    """Read a snapshot's file in parts of some hundred thousand rows, with the columns of ``SNAPSHOT_COLUMNS``.

    Strings are dictionaries (except in added columns), each column is one piece, and any column may be null: see
    ``lacks_required``.

    :param source: a file of Parquet, or its path.
    :param snapshot_id: whose rows it must have.

    Raises ``UnusableFileError``; ``OSError`` and ``MemoryError`` say nothing about the file.
    """
    try:
        described = pq.read_metadata(source)
        names = _known(described.schema.to_arrow_schema())
        options = {"metadata": described, "read_dictionary": _STRINGS, "page_checksum_verification": True}
        with pq.ParquetFile(source, **options) as file:
            # Not by iter_batches(), which takes a damaged page for the end of its column.
            for number in range(file.num_row_groups):
                rows = file.read_row_group(number, columns=names, use_threads=False)
                for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
                    yield with_missing(_checked(rows.slice(start, _ROWS_AT_ONCE), snapshot_id), SNAPSHOT_COLUMNS)
    except (OSError, UnicodeDecodeError, pa.ArrowException) as exc:  # the names of columns are not validated either
        if isinstance(exc, MemoryError) or getattr(exc, "errno", None) not in (None, errno.ENOENT):
            raise
        raise UnusableFileError(f"it cannot be read as Parquet ({str(exc).strip().partition(chr(10))[0]})") from exc


def lacks_required(rows: pa.Table) -> npt.NDArray[np.bool_]:
    """Return which rows lack a required column."""
    lacks = np.zeros(rows.num_rows, np.bool_)
    for each in SNAPSHOT_COLUMNS:
        if not each.nullable and rows[each.name].null_count:
            lacks |= to_numpy(rows[each.name].is_null())
    return lacks


def _checked(rows: pa.Table, snapshot_id: str) -> pa.Table:
    # Pages' headers have no checksums: a flipped bit there shortens a dictionary, and a place behind its end has to be
    # an error, not a null. Only this compares places with dictionaries, and tells that a string is not UTF-8.
    rows.validate(full=True)
    rows = rows.unify_dictionaries().combine_chunks()
    for run_id in pc.unique(rows["run_id"]).drop_null().to_pylist():
        if run_id != snapshot_id:
            foreign = f"it has rows of snapshot {run_id!r} in the folder of another one, so it was copied or renamed"
            raise UnusableFileError(foreign)
    observed_at = to_numpy(fill_nulls(rows["observed_at"].cast(pa.int64()), 0))
    if not ((observed_at >= 0) & (observed_at < _NO_TIME)).all():
        raise UnusableFileError("column observed_at has times before 1970 or beyond the year 8999")
    return rows


def _known(found: pa.Schema) -> list[str]:
    try:
        return known_columns(found, SNAPSHOT_COLUMNS)
    except ValueError as exc:
        raise UnusableFileError(str(exc)) from exc
