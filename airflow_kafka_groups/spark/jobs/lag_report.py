"""Report how far groups lag, in messages and seconds.

By group, topic and owner, from a snapshot. The summary is also written next to the tables, as the last file.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_groups.exceptions import ArgumentError
from airflow_kafka_groups.observe.history.fleet import check_cluster
from airflow_kafka_groups.observe.history.snapshots import find_history
from airflow_kafka_groups.observe.offset_values import Partition, Timestamp
from airflow_kafka_groups.spark.catalogue import CatalogueTable
from airflow_kafka_groups.spark.frames import LAG_SCHEMA, read_stored, write_own
from airflow_kafka_groups.spark.hadoop_storage import require_shared, storage_of
from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
from airflow_kafka_groups.spark.kafka.properties import load_properties
from airflow_kafka_groups.spark.kafka.timestamps import look_up
from airflow_kafka_groups.spark.lag.lags import SUM_NAMES, SUMMED_BY, largest, of_partitions, sums, with_lag
from airflow_kafka_groups.spark.lag.owners import OwnerRule, owner_of, parse_owners
from airflow_kafka_groups.spark.logs import logged
from airflow_kafka_groups.spark.options import KAFKA_PROPERTIES, add_base, add_table, folder_path
from airflow_kafka_groups.spark.program import Program, write_summary
from airflow_kafka_groups.spark.session.preflight import prepare, prepare_kafka
from airflow_kafka_groups.spark.snapshots import logs_of, read_snapshot
from airflow_kafka_groups.spark.unread.recreated import logs_since
from airflow_kafka_groups.storage import paths
from airflow_kafka_groups.storage.job_outputs import require_own_summary, require_replaceable
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from airflow_kafka_groups.storage.paths import TableName

JOB = "lag_report"
_LAG = TableName.LAG_PARTITIONS
_SUMMARY = {"owners": TableName.LAG_OWNERS, "top_groups": TableName.LAG_GROUPS, "top_topics": TableName.LAG_TOPICS}
_SHOWN = 20
_UNREADABLE = "count(DISTINCT group_id) FILTER (WHERE error IS NOT NULL) AS unreadable_groups"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_base(parser)
    add("--cluster", required=True, help="name of the cluster, as the snapshots have it")
    add("--snapshot-id", help="snapshot to report on (default: the newest that is not of named groups)")
    add(KAFKA_PROPERTIES, metavar="FILE", help="properties of Kafka's Java client: look up the lag in seconds, too")
    add("--max-lookups", type=int, default=10_000, help="timestamps to look up, largest lag first (default 10000)")
    add("--owners", metavar="PATH", help="JSON list of rules that say whose groups they are")
    add(
        "--output",
        type=folder_path,
        help="folder of the tables (default BASE/CLUSTER/tables/lag_*/snapshot_id=SNAPSHOT_ID)",
    )
    add_table(parser, "the lag of each partition")


def _check(arguments: argparse.Namespace) -> None:
    check_cluster(arguments.cluster)
    if not 1 <= arguments.max_lookups < 2**31:
        raise ArgumentError("--max-lookups", arguments.max_lookups, "give 1 to 2147483647")


def run(spark: SparkSession, arguments: argparse.Namespace) -> dict[str, Any]:
    """Write the tables and the summary, and return the summary."""
    started = time.monotonic()
    warnings = logged((prepare_kafka if arguments.kafka_properties else prepare)(spark))
    rules = tuple[OwnerRule, ...]()
    if arguments.owners:
        rules = parse_owners(spark, storage_of(spark, arguments.owners).read_text(arguments.owners), arguments.owners)
    folder, output = f"{arguments.base}/{arguments.cluster}", arguments.output
    history = find_history(
        storage_of(spark, folder), arguments.base, arguments.cluster, snapshot_id=arguments.snapshot_id, max_snapshots=1
    )
    snapshot = history.judged
    places = {name: f"{folder}/{paths.partition(name, snapshot.snapshot_id)}" for name in (_LAG, *SUMMED_BY)}
    summary_path = f"{folder}/{paths.summary(_LAG, snapshot.snapshot_id)}"
    if output:
        require_shared(spark, output)  # paths below --base must be shared in any case, or they could not be read
        places = {name: f"{output}/{name.removeprefix('lag_')}" for name in places}
        for name, place in places.items():
            columns = LAG_SCHEMA.names if name == _LAG else (*SUMMED_BY[name], *SUM_NAMES)
            require_replaceable(storage_of(spark, place), place, columns)
        summary_path = f"{output}.json"
        require_own_summary(storage_of(spark, summary_path), summary_path, JOB, "--output", output)
    table = CatalogueTable(spark, arguments.table, LAG_SCHEMA) if arguments.table else None
    storage_of(spark, summary_path).remove(summary_path)
    rows, found = read_snapshot(spark, history, _UNREADABLE, added=with_lag)
    looked_up = list[Timestamp]()
    if arguments.kafka_properties:
        behind = largest(rows, arguments.max_lookups)
        looked_up = _look_up(spark, arguments.kafka_properties, behind, snapshot, rows)
    write_own(of_partitions(rows, owner_of(rules), looked_up), places[_LAG], "reported")
    lags = read_stored(spark, LAG_SCHEMA).parquet(places[_LAG])
    shown = dict[TableName, list[dict[str, Any]]]()
    for name, by in SUMMED_BY.items():
        write_own(summed := sums(lags, *by), places[name], "reported")
        largest_first = read_stored(spark, summed.schema).parquet(places[name]).orderBy(F.desc("lag"), *by)
        shown[name] = [row.asDict() for row in largest_first.limit(_SHOWN).collect()]
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
        **{name: shown[table_name] for name, table_name in _SUMMARY.items()},
        "lookups": len(looked_up),
        "output": output or f"{folder}/{paths.TABLES}",
        "table": arguments.table,
        "warnings": warnings,
        "seconds": round(time.monotonic() - started, 1),
    }
    write_summary(storage_of(spark, summary_path), summary_path, summary)
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
        logs, recreated, _ = logs_since(admin, snapshot, partial(logs_of, rows), places)
        there = logs.keys() - recreated.keys()
    return look_up(spark, properties, [(where, offset) for where, offset in wanted if where in there])


_program = Program(JOB, __doc__, _add_arguments, _check, run, "Nothing was reported")
parse_arguments, main = _program.parse_arguments, _program.main
