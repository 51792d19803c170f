"""Report how far groups lag, in messages and seconds.

By group, topic and owner, from a snapshot. The summary is also written next to the tables, as the last file.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.exceptions import ArgumentError
from airflow_kafka_groups.observe.history.fleet import check_cluster
from airflow_kafka_groups.observe.history.snapshots import find_history
from airflow_kafka_groups.spark.options import KAFKA_PROPERTIES, add_base, add_table, folder_path
from airflow_kafka_groups.spark.program import Program, write_summary
from airflow_kafka_groups.spark.session.packages import WORKER_PACKAGES, require_packages
from airflow_kafka_groups.spark.session_on_demand import SessionOnDemand
from airflow_kafka_groups.storage import paths
from airflow_kafka_groups.storage.job_outputs import require_own_summary, require_replaceable
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from airflow_kafka_groups.storage.paths import TableName
from airflow_kafka_groups.storage.schemas import LAG_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_kafka_groups.observe.history.snapshot_rows import SnapshotRows
    from airflow_kafka_groups.observe.offset_values import Partition, Timestamp
    from airflow_kafka_groups.spark.catalogue import CatalogueTable
    from airflow_kafka_groups.spark.owners import OwnerRule

JOB = "lag_report"
_LAG = TableName.LAG_PARTITIONS
_SUMMARY = {"owners": TableName.LAG_OWNERS, "top_groups": TableName.LAG_GROUPS, "top_topics": TableName.LAG_TOPICS}
_SHOWN = 20


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
    if arguments.max_lookups < 1:
        raise ArgumentError("--max-lookups", arguments.max_lookups, "give 1 or more")


def run(spark: SparkSession | SessionOnDemand, arguments: argparse.Namespace) -> dict[str, Any]:
    """Write the tables and the summary, and return the summary."""
    if not isinstance(spark, SessionOnDemand):
        with SessionOnDemand(JOB, spark) as on_demand:
            return run(on_demand, arguments)
    session, started = spark, time.monotonic()
    if arguments.kafka_properties:
        session.get(for_kafka=True)
    require_packages(WORKER_PACKAGES)
    # They need numpy and pyarrow, and --help does not.
    from airflow_kafka_groups.judge.lag import SUM_NAMES, SUMMED_BY, look_through, write_tables
    from airflow_kafka_groups.observe.history.snapshot_rows import SnapshotRows
    from airflow_kafka_groups.spark.owners import owners_of, parse_owners

    rules: tuple[OwnerRule, ...] = ()
    if arguments.owners:
        rules = parse_owners(
            session.get, session.storage(arguments.owners).read_text(arguments.owners), arguments.owners
        )
    storage = session.storage(f"{arguments.base}/{arguments.cluster}")
    history = find_history(
        storage, arguments.base, arguments.cluster, snapshot_id=arguments.snapshot_id, max_snapshots=1
    )
    snapshot = history.judged
    folder, output = history.folder, arguments.output
    places = {name: f"{folder}/{paths.partition(name, snapshot.snapshot_id)}" for name in (_LAG, *SUMMED_BY)}
    summary_path = f"{folder}/{paths.summary(_LAG, snapshot.snapshot_id)}"
    if output:
        session.require_shared(output)  # paths below --base must be shared in any case, or they could not be read
        places = {name: f"{output}/{name.removeprefix('lag_')}" for name in places}
        for name, place in places.items():
            columns = [each.name for each in LAG_COLUMNS] if name == _LAG else (*SUMMED_BY[name], *SUM_NAMES)
            require_replaceable(session.storage(place), place, columns)
        summary_path = f"{output}.json"
        require_own_summary(session.storage(summary_path), summary_path, JOB, "--output", output)
    table = _table(session.get(), arguments.table) if arguments.table else None
    session.storage(summary_path).remove(summary_path)
    rows = SnapshotRows(storage, history)
    seen = look_through(rows, arguments.max_lookups if arguments.kafka_properties else 0)
    owners = owners_of(session.get, rules, seen.groups)
    found = _look_up(session.get(), arguments, seen.behind, snapshot, rows) if arguments.kafka_properties else []
    sums, tables = write_tables(session.storage(places[_LAG]), places, rows, owners, found)
    (total,) = sums.by().to_pylist()
    if table:
        from airflow_kafka_groups.spark.frames import LAG_SCHEMA, read_stored

        written = read_stored(session.get(), LAG_SCHEMA).parquet(places[_LAG])
        table.replace(arguments.cluster, written, {snapshot.snapshot_id: total["partitions"]})
    summary = {
        "job": JOB,
        "cluster": arguments.cluster,
        "kafka_cluster_id": snapshot.kafka_cluster_id,
        "snapshot_id": snapshot.snapshot_id,
        **total,
        "unreadable_groups": len(seen.unreadable),
        "flags": dict(sums.flags),
        "seconds_methods": dict(sums.methods),
        **{shown: tables[name].slice(0, _SHOWN).to_pylist() for shown, name in _SUMMARY.items()},
        "lookups": len(found),
        "output": output or f"{folder}/{paths.TABLES}",
        "table": arguments.table,
        "warnings": session.warnings,
        "seconds": round(time.monotonic() - started, 1),
    }
    write_summary(session.storage(summary_path), summary_path, summary)
    return summary


def _table(spark: SparkSession, name: str) -> CatalogueTable:
    from airflow_kafka_groups.spark.catalogue import CatalogueTable
    from airflow_kafka_groups.spark.frames import LAG_SCHEMA

    return CatalogueTable(spark, name, LAG_SCHEMA)


def _look_up(
    spark: SparkSession,
    arguments: argparse.Namespace,
    wanted: Sequence[tuple[Partition, int]],
    snapshot: SnapshotManifest,
    rows: SnapshotRows,
) -> list[Timestamp]:
    from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
    from airflow_kafka_groups.spark.kafka.properties import load_properties
    from airflow_kafka_groups.spark.kafka.timestamps import look_up
    from airflow_kafka_groups.spark.unread.recreated import logs_since

    properties = load_properties(spark, arguments.kafka_properties)
    with KafkaAdmin(spark, properties) as admin:  # before the consumer, which waits a minute for a topic that is gone
        admin.cluster_id(snapshot.kafka_cluster_id, "the snapshot is of")
        logs, recreated, _ = logs_since(admin, snapshot, rows, {where for where, _ in wanted})
        there = logs.keys() - recreated.keys()
    return look_up(spark, properties, [(where, offset) for where, offset in wanted if where in there])


_program = Program(JOB, __doc__, _add_arguments, _check, run, "Nothing was reported", starts_later=True)
parse_arguments, main = _program.parse_arguments, _program.main
