"""Observations as a file of Parquet, which is named after its SHA-256. No I/O.

A file of a snapshot becomes one of observations. So no group is in two of them either.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.judge.staleness.lives import READ
from airflow_kafka_groups.observe.history.snapshots import half_written
from airflow_kafka_groups.storage.arrow_values import empty_table
from airflow_kafka_groups.storage.schemas import OBSERVATION_COLUMNS, arrow_schema, known_columns, with_missing

_KINDS = ["group_type", "protocol_type"]
"""The columns that have the same few values in all rows."""

_REPEATED = ["run_id", *_KINDS, "state", "error"]
_DECIDE = tuple(column for column in OBSERVATION_COLUMNS if column.name in READ)


class DamagedObservationsError(Exception):
    """Observations that are not as they were written. The message is the snapshot's id, and that is all."""


class ObservationFile(NamedTuple):
    """What vouches for a file of observations.

    :param groups: the number of observations; at least 1.
    :param oldest: the time of the first one, and ``newest`` that of the last, in microseconds since 1970.
    """

    name: str
    groups: int
    oldest: int
    newest: int
    bytes: int
    sha256: str

    @classmethod
    def of(cls, groups: int, oldest: int, newest: int, size: int, digest: str) -> ObservationFile:
        """Return the description of a file, whose name is made of its digest."""
        return cls(f"part-{digest[:32]}.parquet", groups, oldest, newest, size, digest)


def to_file(table: pa.Table) -> tuple[ObservationFile, bytes]:
    """Return the file of a table of observations that has rows, and its bytes."""
    with pa.BufferOutputStream() as stream:  # an object of Python's would take turns with the threads that reduce
        # Only these columns repeat their values: a dictionary of the others would be made and thrown away.
        pq.write_table(table, stream, compression="zstd", use_dictionary=_REPEATED, write_page_checksum=True)
        content: bytes = stream.getvalue().to_pybytes()
    return ObservationFile.of(table.num_rows, *_extent(table), len(content), sha256(content).hexdigest()), content


def from_file(snapshot_id: str, file: ObservationFile, content: Any, *, everything: bool) -> pa.Table:
    """Read a file of observations.

    :param file: what vouches for it.
    :param content: its bytes.
    :param everything: whether to read all columns, and not only those that decide.

    Raises ``DamagedObservationsError``.
    """
    try:
        if sha256(content).hexdigest() != file.sha256:
            raise ValueError
        columns = OBSERVATION_COLUMNS if everything else _DECIDE
        # Not by read_table(), which imports pandas, and takes a third longer.
        with pq.ParquetFile(pa.BufferReader(content), read_dictionary=_KINDS) as parquet:
            known = known_columns(parquet.schema_arrow, columns, of_any_type=True)  # the digest is of their bytes
            table = with_missing(parquet.read(columns=known, use_threads=False), columns)
        if (table.num_rows, *_extent(table)) != (file.groups, file.oldest, file.newest):
            raise ValueError
    except MemoryError:  # an ArrowException, too; they may be sound, and take more of it to be made again
        raise
    except (ValueError, pa.ArrowException) as exc:
        raise DamagedObservationsError(snapshot_id) from exc
    return table


def _extent(table: pa.Table) -> tuple[int, int]:
    found = pc.min_max(table["observed_at"].cast(pa.int64())).as_py()
    return found["min"], found["max"]


def nothing() -> pa.Table:
    """Return the observations of no group."""
    return empty_table(arrow_schema(OBSERVATION_COLUMNS))


def of_snapshot(snapshot_id: str, parts: Sequence[pa.Table]) -> pa.Table:
    """Return the observations of a snapshot, or of a bucket of its groups, from those of its files.

    Raises ``SnapshotError`` if a group is in two of them: its rows would be judged as those of two groups.
    """
    if len(parts) < 2:
        return parts[0] if parts else nothing()
    table = pa.concat_tables(parts)
    if pc.count_distinct(table["group_id"]).as_py() != table.num_rows:
        twice = pc.value_counts(table["group_id"])
        group = next(each["values"] for each in twice.to_pylist() if each["counts"] > 1)
        raise SnapshotError(half_written(snapshot_id, f"group {group!r} is in two of its files"))
    return table
