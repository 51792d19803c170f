"""The rows of the source: its columns, and Arrow batches made of what the core read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.types import (
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from airflow_kafka_groups.maintenance.columns import OffsetColumns
from airflow_kafka_groups.spark.frames import optional, required

SOURCE_SCHEMA = StructType(
    [
        optional("cluster_id", StringType()),
        required("observed_at", TimestampType()),
        required("group_id", StringType()),
        required("group_type", StringType()),
        required("protocol_type", StringType()),
        required("state", StringType()),
        optional("coordinator", IntegerType()),
        optional("topic", StringType()),
        optional("partition", IntegerType()),
        optional("committed_offset", LongType()),
        optional("leader_epoch", IntegerType()),
        optional("metadata", StringType()),
        optional("log_start", LongType()),
        optional("log_end", LongType()),
        optional("lag", LongType()),
        optional("error", StringType()),
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
