"""Columns of what the jobs read and write, as docs/formats.md says. Every timestamp is an instant, shown in UTC."""

from __future__ import annotations

from pyspark.sql.types import (
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from airflow_kafka_groups.spark.frames import optional, required

MANIFEST_FORMAT = 1
"""The only ``format`` of a manifest, and so of its rows, that these jobs read."""

SNAPSHOT_SCHEMA = StructType(
    [
        required("cluster", StringType()),
        required("run_id", StringType()),
        required("observed_at", TimestampType()),
        required("group_id", StringType()),
        required("group_type", StringType()),
        required("protocol_type", StringType()),
        required("state", StringType()),
        optional("members", IntegerType()),
        optional("coordinator", IntegerType()),
        optional("topic", StringType()),
        optional("partition", IntegerType()),
        optional("committed_offset", LongType()),
        optional("leader_epoch", IntegerType()),
        optional("metadata", StringType()),
        optional("log_start", LongType()),
        optional("log_end", LongType()),
        optional("error", StringType()),
    ]
)
"""One row for each group, topic and partition of a snapshot."""

VERDICT_SCHEMA = StructType(
    [
        required("group_id", StringType()),
        required("group_type", StringType()),
        required("protocol_type", StringType()),
        required("state", StringType()),
        optional("members", IntegerType()),
        optional("coordinator", IntegerType()),
        required("partitions", IntegerType()),
        optional("lag", LongType()),
        required("first_seen_at", TimestampType()),
        optional("empty_since", TimestampType()),
        optional("last_moved_at", TimestampType()),
        optional("idle_since", TimestampType()),
        optional("idle_seconds", DoubleType()),
        required("observations", IntegerType()),
        required("observed_at", TimestampType()),
        required("lag_unknown", IntegerType()),
        optional("lost", LongType()),
        optional("lag_trend", DoubleType()),
        optional("lag_trend_since", TimestampType()),
        optional("offsets_expire_by", TimestampType()),
        optional("data_loss_not_before", TimestampType()),
        required("verdict", StringType()),
        required("reason", StringType()),
    ]
)
"""One row for each group of the newest snapshot."""

STATE_SCHEMA = StructType(
    [
        required("group_id", StringType()),
        required("observed_at", TimestampType()),
        required("group_type", StringType()),
        required("protocol_type", StringType()),
        required("state", StringType()),
        optional("members", IntegerType()),
        optional("coordinator", IntegerType()),
        required("partitions", LongType()),
        optional("lag", LongType()),
        optional("error", StringType()),
        required("quiet", BooleanType()),
        required("first_seen_at", TimestampType()),
        optional("empty_since", TimestampType()),
        optional("last_moved_at", TimestampType()),
        required("observations", LongType()),
        optional("committed_partitions", LongType()),
        optional("committed_xor", LongType()),
        optional("committed_sum", LongType()),
        required("lag_unknown", LongType()),
        optional("lost", LongType()),
        optional("log_start", LongType()),
        optional("nearest", LongType()),
        optional("life_lag_at", TimestampType()),
        optional("life_lag", LongType()),
        optional("idle_lag_at", TimestampType()),
        optional("idle_lag", LongType()),
        optional("idle_log_start", LongType()),
    ]
)
"""What a history comes to: one row for each group of its newest snapshot.

``quiet``: read without error, Empty, without members. ``observations``: how many in a row were quiet and unmoved, up to
the newest. ``committed_*``: what the last observation without an error had committed. ``log_start``: sum over the
committed partitions. ``nearest``: the least that is left between a log start and the committed offset. ``life_*`` and
``idle_*``: what the first observation with all ends known saw, of the present life and of the present idle time.
"""

VERDICTS = ("unreadable", "untouchable", "live", "no_offsets", "moving", "settling", "stale")
"""Every verdict, in the order in which they are decided."""
