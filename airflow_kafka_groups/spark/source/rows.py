"""The rows of the source: its columns, and Arrow batches made of what the core read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.types import (
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from airflow_kafka_groups.maintenance.columns import OffsetColumns

SOURCE_SCHEMA = StructType(
    [
        StructField("cluster_id", StringType(), nullable=True),
        StructField("observed_at", TimestampType(), nullable=False),
        StructField("group_id", StringType(), nullable=False),
        StructField("group_type", StringType(), nullable=False),
        StructField("protocol_type", StringType(), nullable=False),
        StructField("state", StringType(), nullable=False),
        StructField("coordinator", IntegerType(), nullable=True),
        StructField("topic", StringType(), nullable=True),
        StructField("partition", IntegerType(), nullable=True),
        StructField("committed_offset", LongType(), nullable=True),
        StructField("leader_epoch", IntegerType(), nullable=True),
        StructField("metadata", StringType(), nullable=True),
        StructField("log_start", LongType(), nullable=True),
        StructField("log_end", LongType(), nullable=True),
        StructField("lag", LongType(), nullable=True),
        StructField("error", StringType(), nullable=True),
    ]
)
"""Columns named as in a snapshot (``schemas.py``); ``cluster_id`` is Kafka's own id of the cluster."""

_ROWS_PER_BATCH = 131_072


def arrow_schema() -> Any:
    """Give the columns as Arrow's; Spark compares them strictly, nullability included."""
    import pyarrow as pa

    kinds = {
        StringType: pa.string(),
        IntegerType: pa.int32(),
        LongType: pa.int64(),
        TimestampType: pa.timestamp("us", tz="UTC"),
    }
    return pa.schema([pa.field(f.name, kinds[type(f.dataType)], nullable=f.nullable) for f in SOURCE_SCHEMA])


def batches(columns: OffsetColumns, cluster_id: str | None) -> Iterator[Any]:
    """Give the rows as ``pyarrow.RecordBatch``.

    :param columns: groups with their offsets, and the ends of the logs if they were asked for.
    :param cluster_id: the cluster's id.
    """
    import pyarrow as pa

    schema = arrow_schema()
    for table in columns.tables(_ROWS_PER_BATCH):
        named = {name: table.column(name) for name in table.column_names}
        named["lag"] = _lag(named["committed_offset"], named["log_start"], named["log_end"])
        named["cluster_id"] = pa.repeat(pa.scalar(cluster_id, pa.string()), table.num_rows)
        yield from pa.table({name: named[name] for name in schema.names}, schema=schema).to_batches()


def _lag(committed: Any, start: Any, end: Any) -> Any:
    """Count what is left to read, as ``admin.lag`` does: from the log start if that is later, null beyond the end."""
    import pyarrow.compute as pc

    behind = pc.subtract(end, pc.max_element_wise(committed, start, skip_nulls=False))
    return pc.if_else(pc.less_equal(committed, end), behind, None)
