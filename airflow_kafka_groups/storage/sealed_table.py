"""A small Parquet table beside a snapshot's rows, for which the snapshot's manifest vouches by its SHA-256."""

from __future__ import annotations

import hashlib
import io
from typing import Any

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.layout import StoragePath
from airflow_kafka_groups.storage.schemas import Columns, arrow_schema, read_known

_ROW_GROUP = 16_384


def write_sealed(path: StoragePath, table: Any) -> tuple[int, str]:
    """Create the file of a ``pyarrow.Table``, and return its size and its SHA-256. Raises ``StorageError``."""
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(table, buffer, row_group_size=_ROW_GROUP, compression="zstd")
    data = buffer.getvalue()
    FILES.create(path, data)
    return len(data), hashlib.sha256(data).hexdigest()


def read_sealed(path: StoragePath, what: str, columns: Columns, *, sha256: str, rows: int) -> Any:
    """Return a table as a ``pyarrow.Table``.

    :param what: the content, for messages: ``"members"``.
    :param columns: the columns.
    :param sha256: the digest of its bytes, as the manifest has it.

    Raises ``SnapshotError`` if it is missing or not what the manifest vouches for, and ``StorageError``.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = FILES.read(path)
    if data is None:
        raise SnapshotError(
            f"the {what} of snapshot {path.name.removesuffix('.parquet')} are missing: there is no {path}"
        )
    if hashlib.sha256(data).hexdigest() != sha256:
        raise SnapshotError(f"{path} is damaged: its SHA-256 differs from the manifest's")
    try:
        with pq.ParquetFile(pa.BufferReader(data)) as parquet:
            table = read_known(parquet, columns).cast(arrow_schema(columns))
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise SnapshotError(f"{path} cannot be read as a table of {what}: {error}. Take a new snapshot") from error
    if len(table) != rows:
        raise SnapshotError(f"{path} is damaged: it has {len(table)} rows instead of {rows}")
    return table
