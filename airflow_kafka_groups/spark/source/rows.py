"""The rows of the source: its columns, and Arrow batches made of what the core read."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import (
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

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
