"""A small Parquet table for which the manifest beside it vouches by its SHA-256."""

from __future__ import annotations

import hashlib
import io
from typing import Any

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.layout import StoragePath
from airflow_kafka_groups.storage.manifest import SnapshotFile
from airflow_kafka_groups.storage.schemas import Columns, arrow_schema, read_known

_ROW_GROUP = 16_384


def write_sealed(path: StoragePath, table: Any) -> SnapshotFile:
    """Create the file of a ``pyarrow.Table``, and return what vouches for it. Raises ``StorageError``."""
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(table, buffer, row_group_size=_ROW_GROUP, compression="zstd")
    FILES.create(path, data := buffer.getvalue())
    return SnapshotFile(path.name, len(table), hashlib.sha256(data).hexdigest())


def read_sealed(path: StoragePath, what: str, columns: Columns, sha256: str) -> Any:
    """Return a table as a ``pyarrow.Table``, whichever version wrote it.

    :param what: the content, for messages: ``"members"``.
    :param sha256: the digest of its bytes, as the manifest has it.

    Raises ``SnapshotError`` if it is missing or not what the manifest vouches for, and ``StorageError``.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if (data := FILES.read(path)) is None:
        raise SnapshotError(
            f"the {what} of snapshot {path.name.removesuffix('.parquet')} are missing: there is no {path}"
        )
    if hashlib.sha256(data).hexdigest() != sha256:
        raise SnapshotError(f"{path} is damaged: its SHA-256 differs from the manifest's")
    with pq.ParquetFile(pa.BufferReader(data)) as parquet:
        return read_known(parquet, columns).cast(arrow_schema(columns))
