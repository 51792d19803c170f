"""The one reader of a snapshot's rows: only bytes that the manifest vouches for, whichever version wrote them."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.observe.history.snapshots import half_written
from airflow_kafka_groups.storage.file_storage import Storage
from airflow_kafka_groups.storage.layout import StoragePath
from airflow_kafka_groups.storage.manifest import SnapshotFile
from airflow_kafka_groups.storage.schemas import SNAPSHOT_COLUMNS, Columns, known_columns, with_missing


def stored_rows(
    storage: Storage,
    snapshot_id: str,
    file: SnapshotFile,
    path: StoragePath | str,
    columns: Columns = SNAPSHOT_COLUMNS,
    at_once: int | None = None,
) -> Iterator[Any]:
    """Read a snapshot's file from storage, as ``rows_in`` does. Raises ``SnapshotError`` and ``StorageError``."""
    if (content := storage.read(path)) is None:
        raise SnapshotError(half_written(snapshot_id, f"data file(s) missing: {path}"))
    yield from rows_in(file, snapshot_id, content, columns, at_once)


def rows_in(
    file: SnapshotFile,
    snapshot_id: str,
    content: Any,
    columns: Columns = SNAPSHOT_COLUMNS,
    at_once: int | None = None,
) -> Iterator[Any]:
    """Read a snapshot's file in parts, each a ``pyarrow.RecordBatch`` of one row group.

    A column that an older version did not write is null, and one that a newer version has added is left out.

    :param file: what the manifest says of it.
    :param content: its bytes.
    :param columns: the columns to read. Default: all.
    :param at_once: the most rows of a part. Default: parts are row groups, and their strings dictionaries.

    Raises ``SnapshotError`` for a file that contradicts its manifest.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    def refused(problem: str) -> SnapshotError:
        return SnapshotError(half_written(snapshot_id, f"{file.name}: {problem}"))

    if sha256(content).hexdigest() != file.sha256:
        raise refused("it has other bytes than its manifest describes")
    described = pq.read_metadata(pa.BufferReader(content))
    if described.num_rows != file.rows:
        raise refused(f"{described.num_rows} rows where its manifest says {file.rows}")
    try:
        known = known_columns(described.schema.to_arrow_schema(), columns)
    except ValueError as exc:
        raise refused(str(exc)) from exc
    strings = [each.name for each in columns if each.kind == "string" and not each.added and not at_once]
    with pq.ParquetFile(pa.BufferReader(content), metadata=described, read_dictionary=strings) as parquet:
        for group in range(described.num_row_groups):
            size = at_once or max(1, described.row_group(group).num_rows)
            for part in parquet.iter_batches(size, row_groups=[group], columns=known, use_threads=False):
                yield with_missing(part, columns)
