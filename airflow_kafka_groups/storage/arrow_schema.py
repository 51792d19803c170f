"""Arrow's schema of a stored table, made from ``contracts.columns``, and its times as Python's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_kafka_groups.storage.columns import Columns

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def arrow_schema(columns: Columns) -> Any:
    """Return the ``pyarrow.Schema`` of these columns."""
    import pyarrow as pa

    types = {
        **{name: getattr(pa, name)() for name in ("string", "int32", "int64", "binary")},
        "strings": pa.list_(pa.string()),
        **{"timestamp": pa.timestamp("us", tz="UTC"), "double": pa.float64(), "boolean": pa.bool_()},
    }
    return pa.schema([pa.field(column.name, types[column.kind], column.nullable) for column in columns])


def unchecked_schema(columns: Columns) -> Any:
    """Return the schema of rows with these columns that nobody has checked: one that is required may be null."""
    import pyarrow as pa

    return pa.schema([field.with_nullable(True) for field in arrow_schema(columns)])


def utc_times(column: Any) -> list[datetime | None]:
    """Return a column of stored times; pyarrow's own conversion takes several times as long.

    Many rows have the same time, that of a snapshot: each is converted once.
    """
    import pyarrow as pa

    micros = column.cast(pa.int64()).to_pylist()
    # Seconds and microseconds on their own take timedelta's short way.
    times = {value: _EPOCH + timedelta(0, value // 1_000_000, value % 1_000_000) for value in set(micros) - {None}}
    return list(map(times.get, micros))


def to_rows(table: Any) -> list[dict[str, Any]]:
    """Return the rows of a table or batch; pyarrow's own conversion of a time imports pandas."""
    import pyarrow as pa

    columns = (utc_times(each) if pa.types.is_timestamp(each.type) else each.to_pylist() for each in table.columns)
    return [dict(zip(table.schema.names, values, strict=True)) for values in zip(*columns, strict=True)]
