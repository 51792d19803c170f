"""Columns of what the jobs read and write, as docs/formats.md says. Every timestamp is an instant, shown in UTC."""

from __future__ import annotations

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

MANIFEST_FORMAT = 1
"""The only ``format`` of a manifest, and so of its rows, that these jobs read."""


def _required(name: str, data_type: DataType) -> StructField:
    return StructField(name, data_type, nullable=False)


def _optional(name: str, data_type: DataType) -> StructField:
    return StructField(name, data_type, nullable=True)


SNAPSHOT_SCHEMA = StructType(
    [
        _required("cluster", StringType()),
        _required("run_id", StringType()),
        _required("observed_at", TimestampType()),
        _required("group_id", StringType()),
        _required("group_type", StringType()),
        _required("protocol_type", StringType()),
        _required("state", StringType()),
        _optional("members", IntegerType()),
        _optional("coordinator", IntegerType()),
        _optional("topic", StringType()),
        _optional("partition", IntegerType()),
        _optional("committed_offset", LongType()),
        _optional("leader_epoch", IntegerType()),
        _optional("metadata", StringType()),
        _optional("log_start", LongType()),
        _optional("log_end", LongType()),
        _optional("error", StringType()),
    ]
)
"""One row for each group, topic and partition of a snapshot."""

VERDICT_SCHEMA = StructType(
    [
        _required("group_id", StringType()),
        _required("group_type", StringType()),
        _required("protocol_type", StringType()),
        _required("state", StringType()),
        _optional("members", IntegerType()),
        _optional("coordinator", IntegerType()),
        _required("partitions", IntegerType()),
        _optional("lag", LongType()),
        _required("first_seen_at", TimestampType()),
        _optional("empty_since", TimestampType()),
        _optional("last_moved_at", TimestampType()),
        _optional("idle_since", TimestampType()),
        _optional("idle_seconds", DoubleType()),
        _required("observations", IntegerType()),
        _required("observed_at", TimestampType()),
        _required("verdict", StringType()),
        _required("reason", StringType()),
    ]
)
"""One row for each group of the newest snapshot."""

STATE_SCHEMA = StructType(
    [
        _required("group_id", StringType()),
        _required("observed_at", TimestampType()),
        _required("group_type", StringType()),
        _required("protocol_type", StringType()),
        _required("state", StringType()),
        _optional("members", IntegerType()),
        _optional("coordinator", IntegerType()),
        _required("partitions", LongType()),
        _optional("lag", LongType()),
        _optional("error", StringType()),
        _required("quiet", BooleanType()),
        _required("first_seen_at", TimestampType()),
        _optional("empty_since", TimestampType()),
        _optional("last_moved_at", TimestampType()),
        _required("observations", LongType()),
        _optional("committed_partitions", LongType()),
        _optional("committed_xor", LongType()),
        _optional("committed_sum", LongType()),
    ]
)
"""What a history comes to: one row for each group of its newest snapshot.

``quiet``: read without error, Empty, without members. ``observations``: how many in a row were quiet and unmoved, up to
the newest. ``committed_*``: what the last observation without an error had committed.
"""

VERDICTS = ("unreadable", "untouchable", "live", "no_offsets", "moving", "settling", "stale")
"""Every verdict, in the order in which they are decided."""
