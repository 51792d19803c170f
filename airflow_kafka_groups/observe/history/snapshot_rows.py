"""The rows of snapshots, read from their files by pyarrow, a part at a time, and checked.

Memory holds a row group and one part of it, and the bytes of a file that is not on a local disk.
``parts_of`` reads in the driver or in Spark's tasks, which need no more of this package than this module and the stored
columns.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_kafka_groups.exceptions import SnapshotError, StorageError
from airflow_kafka_groups.observe.history.snapshots import History, half_written, rows_of
from airflow_kafka_groups.shown import first_line
from airflow_kafka_groups.storage.arrow_values import fill_nulls, to_numpy
from airflow_kafka_groups.storage.job_files import Storage
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from airflow_kafka_groups.storage.schemas import SNAPSHOT_COLUMNS, known_columns, with_missing

_ROWS_AT_ONCE = 250_000
_STRINGS = [each.name for each in SNAPSHOT_COLUMNS if each.kind == "string" and not each.added]
_NO_TIME = 221_845_392_000_000_000
"""The microsecond after the last one that ``contracts.ids.parse_time`` accepts."""


class UnusableFileError(Exception):
    """A snapshot's file whose rows cannot be used. The message is a clause."""


class SnapshotRows:
    """The rows of the judged snapshot of a history: parts as those of ``parts_of``, read again by each loop.

    A loop raises as ``file_parts`` does, and ``SnapshotError`` at its end, unless all rows were there.
    """

    def __init__(self, storage: Storage, history: History) -> None:
        self._storage, self._history = storage, history

    def __iter__(self) -> Iterator[pa.Table]:
        manifest, rows, lacking = self._history.judged, 0, 0
        for path in rows_of(self._history, manifest):
            for part in file_parts(self._storage, manifest, path):
                rows += part.num_rows
                lacking += int(lacks_required(part).sum())
                yield part
        require_all(manifest, rows, lacking)


def file_parts(storage: Storage, manifest: SnapshotManifest, path: str) -> Iterator[pa.Table]:
    """Read a file of a snapshot, as ``parts_of`` does, from storage.

    Raises ``SnapshotError`` for a file that cannot be used, and ``StorageError`` for one that cannot be read.
    """
    here = storage.direct(path)
    try:
        source = str(here) if here is not None else pa.BufferReader(storage.read_bytes(path))
        yield from parts_of(source, manifest.snapshot_id)
    except UnusableFileError as exc:
        raise SnapshotError(half_written(manifest.snapshot_id, f"{path.rpartition('/')[2]}: {exc}")) from exc
    except (OSError, MemoryError) as exc:  # the snapshot may be sound: to delete its manifest is no remedy
        raise StorageError(f"{path} cannot be read: {first_line(exc)}") from exc


def require_all(manifest: SnapshotManifest, rows: int, lacking: int) -> None:
    """Raise ``SnapshotError`` unless a snapshot has as many rows as its manifest says, with all required columns.

    :param rows: the number of rows that it has.
    :param lacking: the number of those that lack a required column.
    """
    if rows != manifest.rows:
        problem = f"{rows} rows where its manifest says {manifest.rows}"
        raise SnapshotError(half_written(manifest.snapshot_id, problem))
    if lacking:
        problem = f"{lacking} rows lack a group, a time, a state or another required column"
        raise SnapshotError(half_written(manifest.snapshot_id, problem))


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
