"""Arrow's schema of a stored table, made from ``contracts.columns``."""

from __future__ import annotations

from typing import Any

from airflow_kafka_groups.contracts.columns import Columns


def arrow_schema(columns: Columns) -> Any:
    """Return the ``pyarrow.Schema`` of these columns."""
    import pyarrow as pa

    types = {
        **{name: getattr(pa, name)() for name in ("string", "int32", "int64", "binary")},
        **{"timestamp": pa.timestamp("us", tz="UTC"), "double": pa.float64(), "boolean": pa.bool_()},
    }
    return pa.schema([pa.field(column.name, types[column.kind], column.nullable) for column in columns])
