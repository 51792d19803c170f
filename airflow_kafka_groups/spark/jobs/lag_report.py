"""Report how far groups lag, in messages and seconds.

By group, topic and partition, from a snapshot. The summary is also written beside the table, as the last file.

Messages are never negative and never guessed: the column ``flag`` explains a missing number. Seconds are the age of the
first unread record; ``lag_seconds_method`` names its clock: the producer's (``CreateTime``) or the broker's.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Collection, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_groups.exceptions import ArgumentError
from airflow_kafka_groups.observe.history.fleet import check_cluster
from airflow_kafka_groups.observe.history.snapshots import find_history
from airflow_kafka_groups.observe.offset_values import Partition, Timestamp
from airflow_kafka_groups.spark.catalogue import CatalogueTable
from airflow_kafka_groups.spark.frames import LAG_SCHEMA, read_stored, write_own
from airflow_kafka_groups.spark.hadoop_storage import storage_of
from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
from airflow_kafka_groups.spark.kafka.properties import load_properties
from airflow_kafka_groups.spark.kafka.reader import look_up
from airflow_kafka_groups.spark.options import KAFKA_PROPERTIES, add_base, add_table
from airflow_kafka_groups.spark.program import Program, logged, write_summary
from airflow_kafka_groups.spark.session import prepare, prepare_kafka
from airflow_kafka_groups.spark.snapshots import logs_since, read_snapshot
from airflow_kafka_groups.storage import paths
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from airflow_kafka_groups.storage.paths import TableName

JOB = "lag_report"
_LAG = TableName.LAG_PARTITIONS
_SHOWN = 20
_UNREADABLE = "count(DISTINCT group_id) FILTER (WHERE error IS NOT NULL) AS unreadable_groups"
_PLACE = ["topic", "partition", "first_offset"]
_TIMESTAMPS = "topic string, partition int, first_offset long, timestamp_ms long, clock string"
# The functions greatest() and least() pass over nulls: a commit without a log has a flag before they count.
_FIRST = "least(greatest(committed_offset, log_start), log_end)"
_FLAG = f"""
CASE WHEN error IS NOT NULL OR committed_offset IS NULL THEN 'unreadable'
     WHEN log_start IS NULL OR log_end IS NULL THEN 'unknown'
     WHEN committed_offset > log_end THEN 'beyond_end'
     WHEN committed_offset < {_FIRST} THEN 'data_lost' ELSE 'ok' END AS flag
"""
_HAS_LAG = "topic IS NOT NULL AND flag IN ('ok', 'data_lost')"
_MESSAGES = (
    f"CASE WHEN {_HAS_LAG} THEN log_end - {_FIRST} END AS lag",
    f"CASE WHEN {_HAS_LAG} THEN {_FIRST} - committed_offset ELSE 0 END AS lost",
    "greatest(committed_offset, log_start) AS first_offset",
)
# A producer's clock may say anything, such as nanoseconds: what is beyond this counts as this.
_LATEST_MS = 9_000_000_000_000_000
_SECONDS = (
    f"""
CASE WHEN lag = 0 THEN 0D WHEN lag > 0 AND timestamp_ms IS NOT NULL
     THEN greatest((unix_micros(observed_at) - least(timestamp_ms, {_LATEST_MS}) * 1000) / 1e6D, 0D) END AS lag_seconds
""",
    """
CASE WHEN lag IS NULL THEN flag WHEN lag = 0 THEN 'no_lag' WHEN clock IS NULL THEN 'not_looked_up'
     WHEN timestamp_ms IS NULL THEN 'no_record_found' ELSE 'first_unread_record:' || clock END AS lag_seconds_method
""",
)
_SUMS = (
    "count(DISTINCT group_id) AS groups",
    "count(*) AS partitions",
    "count_if(lag IS NULL) AS partitions_without_lag",
    "count_if(lag > 0 AND lag_seconds IS NULL) AS partitions_without_seconds",
    "coalesce(sum(lag), 0) AS lag",
    "max(lag) AS max_partition_lag",
    "sum(lost) AS lost",
    # Zero only if nothing is unread for certain: partitions that are read do not hide others without a time.
    "CASE WHEN bool_and(lag <=> 0) THEN 0D ELSE max(lag_seconds) FILTER (WHERE lag > 0) END AS max_lag_seconds",
)
SUMMED_BY = {"top_groups": ("group_id", "state"), "top_topics": ("topic",)}
"""The sums that a summary shows, and what they are summed up by."""


def with_lag(rows: DataFrame) -> DataFrame:
    """Add the lag in messages to a snapshot's rows, and ``first_offset``, the first one unread."""
    return rows.selectExpr("*", _FLAG).selectExpr("*", *_MESSAGES)


def largest(lags: DataFrame, count: int) -> list[tuple[Partition, int]]:
    """Return the first unread offsets of the largest lags, each once."""
    most = lags.where("lag > 0").groupBy(_PLACE).agg(F.max("lag").alias("lag"))
    rows = most.orderBy(F.desc("lag"), *_PLACE).limit(count).collect()
    return [(Partition(row["topic"], row["partition"]), row["first_offset"]) for row in rows]


def of_partitions(lags: DataFrame, found: Collection[Timestamp]) -> DataFrame:
    """Return each committed partition with its lag in messages and in seconds: rows of ``LAG_SCHEMA``.

    :param lags: the rows of ``with_lag``.
    :param found: the timestamps of first unread records.
    """
    timestamps = F.broadcast(lags.sparkSession.createDataFrame(list(found), _TIMESTAMPS))
    timed = lags.where("topic IS NOT NULL").join(timestamps, _PLACE, "left")
    return timed.selectExpr("*", *_SECONDS).select(*LAG_SCHEMA.names)


def sums(lags: DataFrame, *names: str) -> DataFrame:
    """Sum up the lag, largest first, by these columns; none for one row over all."""
    return lags.groupBy(*names).agg(*map(F.expr, _SUMS)).orderBy(F.desc("lag"), *names)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_base(parser)
    add("--cluster", required=True, help="name of the cluster, as the snapshots have it")
    add("--snapshot-id", help="snapshot to report on (default: the newest that is not of named groups)")
    add(KAFKA_PROPERTIES, metavar="FILE", help="properties of Kafka's Java client: look up the lag in seconds, too")
    add("--max-lookups", type=int, default=10_000, help="timestamps to look up, largest lag first (default 10000)")
    add_table(parser, "the lag of each partition")


def _check(arguments: argparse.Namespace) -> None:
    check_cluster(arguments.cluster)
    if not 1 <= arguments.max_lookups < 2**31:
        raise ArgumentError("--max-lookups", arguments.max_lookups, "give 1 to 2147483647")


def run(spark: SparkSession, arguments: argparse.Namespace) -> dict[str, Any]:
    """Write the table and the summary, and return the summary."""
    started = time.monotonic()
    warnings = logged((prepare_kafka if arguments.kafka_properties else prepare)(spark))
    folder = f"{arguments.base}/{arguments.cluster}"
    storage = storage_of(spark, folder)
    history = find_history(
        storage, arguments.base, arguments.cluster, snapshot_id=arguments.snapshot_id, max_snapshots=1
    )
    snapshot = history.judged
    place = f"{folder}/{paths.partition(_LAG, snapshot.snapshot_id)}"
    summary_path = f"{folder}/{paths.summary(_LAG, snapshot.snapshot_id)}"
    table = CatalogueTable(spark, arguments.table, LAG_SCHEMA) if arguments.table else None
    storage.remove(summary_path)
    rows, found = read_snapshot(spark, history, _UNREADABLE)
    rows = with_lag(rows)
    looked_up = list[Timestamp]()
    if arguments.kafka_properties:
        behind = largest(rows, arguments.max_lookups)
        looked_up = _look_up(spark, arguments.kafka_properties, behind, snapshot, rows)
    write_own(of_partitions(rows, looked_up), place, "reported")
    lags = read_stored(spark, LAG_SCHEMA).parquet(place)
    shown = {name: [row.asDict() for row in sums(lags, *by).limit(_SHOWN).collect()] for name, by in SUMMED_BY.items()}
    total = sums(lags).collect()[0].asDict()
    if table:
        table.replace(arguments.cluster, lags, {snapshot.snapshot_id: total["partitions"]})
    summary = {
        "job": JOB,
        "cluster": arguments.cluster,
        "kafka_cluster_id": snapshot.kafka_cluster_id,
        "snapshot_id": snapshot.snapshot_id,
        **total,
        "unreadable_groups": found["unreadable_groups"],
        "flags": _counts(lags, "flag"),
        "seconds_methods": _counts(lags, "lag_seconds_method"),
        **shown,
        "lookups": len(looked_up),
        "output": f"{folder}/{paths.TABLES}",
        "table": arguments.table,
        "warnings": warnings,
        "seconds": round(time.monotonic() - started, 1),
    }
    write_summary(storage, summary_path, summary)
    return summary


def _counts(lags: DataFrame, name: str) -> dict[str, int]:
    return dict(lags.groupBy(name).count().orderBy(name).collect())


def _look_up(
    spark: SparkSession, path: str, wanted: Sequence[tuple[Partition, int]], snapshot: SnapshotManifest, rows: DataFrame
) -> list[Timestamp]:
    properties = load_properties(spark, path)
    with KafkaAdmin(spark, properties) as admin:  # before the consumer, which waits a minute for a topic that is gone
        admin.cluster_id(snapshot.kafka_cluster_id, "the snapshot is of")
        places = {where for where, _ in wanted}
        logs, recreated, _ = logs_since(admin, snapshot, rows, places)
        there = logs.keys() - recreated.keys()
    return look_up(spark, properties, [(where, offset) for where, offset in wanted if where in there])


_program = Program(JOB, __doc__, _add_arguments, _check, run, "Nothing was reported")
parse_arguments, main = _program.parse_arguments, _program.main
