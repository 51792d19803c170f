"""Find the last commit of each group, and when a member last joined or left it.

Decodes ``__consumer_offsets``, and writes the newest commit of each group, topic and partition, and for each group
since when it is quiet, without any snapshot history. It changes nothing in Kafka and joins no group.
"""

from __future__ import annotations

import argparse
import time
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_groups.exceptions import ArgumentError
from airflow_kafka_groups.spark.catalogue import CatalogueTable
from airflow_kafka_groups.spark.frames import COMMIT_GROUP_SCHEMA, COMMIT_SCHEMA, read_stored, write_own
from airflow_kafka_groups.spark.hadoop_storage import require_shared, storage_of
from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
from airflow_kafka_groups.spark.kafka.offsets_topic import RIGHTS, TOPIC, log_partitions, ranges_of, scanned
from airflow_kafka_groups.spark.kafka.properties import load_properties
from airflow_kafka_groups.spark.options import KAFKA_PROPERTIES, TABLE, add_table, folder_path
from airflow_kafka_groups.spark.program import Program, logged, write_summary
from airflow_kafka_groups.spark.session import prepare_kafka
from airflow_kafka_groups.storage import paths
from airflow_kafka_groups.storage.job_outputs import require_own_summary, require_replaceable

JOB = "commit_history"
_METADATA = "group_type, protocol_type, protocol, generation, leader, members, state_changed_at"
_OF_GROUP = (
    "count_if(kind = 'commit') AS partitions",
    "min(committed_at) FILTER (WHERE kind = 'commit') AS first_commit_at",
    "max(committed_at) AS last_commit_at",
    "max(recorded_at) FILTER (WHERE kind = 'record') AS last_record_at",
    # A group may have changed its protocol: the record written last counts.
    f"max(struct(recorded_at, {_METADATA})) FILTER (WHERE kind = 'group') AS own",
)
_QUIET = """
CASE WHEN group_type IS NULL OR (group_type = 'classic' AND members = 0)
     THEN greatest(last_commit_at, state_changed_at) END AS quiet_since
"""


def commits(scanned: DataFrame) -> DataFrame:
    """Keep the commits of a scan."""
    return scanned.where("kind = 'commit'").select(*COMMIT_SCHEMA.names)


def groups(scanned: DataFrame) -> DataFrame:
    """Build one row for each group in a scan, from its own record and its commits.

    ``quiet_since`` is the later of the last commit and the last state change; null unless the log proves that the group
    has no members: a classic group without members, or one that never had any.
    """
    exists = "count_if(kind IN ('commit', 'group')) > 0 AS is_there"
    of_groups = scanned.where("kind IN ('commit', 'removed', 'group', 'record')").groupBy("group_id")
    by_group = of_groups.agg(*map(F.expr, (*_OF_GROUP, exists))).where("is_there")
    return by_group.selectExpr("*", "own.*").selectExpr("*", _QUIET).select(*COMMIT_GROUP_SCHEMA.names)


_TABLES = {"commits": (commits, COMMIT_SCHEMA, TABLE), "groups": (groups, COMMIT_GROUP_SCHEMA, "--groups-table")}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(KAFKA_PROPERTIES, required=True, metavar="FILE", help="properties of Kafka's Java client")
    add("--output", required=True, type=folder_path, help="folder of the tables commits and groups, replaced if there")
    add("--run-id", help="name of the run in the tables; a run of the same name replaces it")
    for name, (_, _, option) in _TABLES.items():
        add_table(parser, f"the {name}", option)


def _check(arguments: argparse.Namespace) -> None:
    arguments.run_id = arguments.run_id or paths.new_id(datetime.now(UTC))
    if not paths.is_cluster_name(arguments.run_id):
        raise ArgumentError("--run-id", arguments.run_id, paths.CLUSTER_NAME_RULE)


def run(spark: SparkSession, arguments: argparse.Namespace) -> dict[str, Any]:
    """Read and decode the log, write the tables and the summary, and return the summary."""
    started = time.monotonic()
    warnings = prepare_kafka(spark)
    properties = load_properties(spark, arguments.kafka_properties)
    storage, summary_path = storage_of(spark, arguments.output), f"{arguments.output}/summary.json"
    require_own_summary(storage, summary_path, JOB, "--output", arguments.output)
    for name, (_, schema, _) in _TABLES.items():
        require_replaceable(storage, f"{arguments.output}/{name}", schema.names, "run_id")
    keys = ("kafka_cluster_id", "run_id")
    tables = {
        name: CatalogueTable(spark, asked, schema, keys, option)
        for name, (_, schema, option) in _TABLES.items()
        if (asked := getattr(arguments, option.strip("-").replace("-", "_")))
    }
    with KafkaAdmin(spark, properties) as admin:
        cluster_id = admin.cluster_id()
        partitions = log_partitions(admin)
        read_until = datetime.now(UTC)
        ends = admin.log_ends(partitions, read_committed=False)
        ranges = ranges_of(admin, partitions)
        hidden = sum(each.end < ends[each.partition].end for each in ranges)
        require_shared(spark, arguments.output)
        storage.remove(summary_path)
        log = scanned(spark, admin, properties, ranges, joined=_joined)
        part = f"run_id={arguments.run_id}"
        try:
            for name, (made, _, _) in _TABLES.items():
                folder = f"{arguments.output}/{name}"
                storage.remove_folder(folder, everything=True)  # with the runs before it
                write_own(made(log.rows), f"{folder}/{part}", "wrote")
        finally:
            log.release()
    warnings += log.doubts
    if hidden:
        warnings.append(
            f"{hidden} partition(s) of {TOPIC} were read up to an open transaction only: commits after it are missing. "
            "Run the job again when the transaction has ended"
        )
    logged(warnings)
    written = {
        name: read_stored(spark, schema).parquet(f"{arguments.output}/{name}")
        for name, (_, schema, _) in _TABLES.items()
    }
    extent = _extent(written["commits"], written["groups"])
    for name, table in tables.items():
        table.replace(cluster_id, written[name], {arguments.run_id: extent[name]})
    summary = {
        "job": JOB,
        "run_id": arguments.run_id,
        "kafka_cluster_id": cluster_id,
        "partitions": len(partitions),
        "offsets": log.offsets,
        "records": log.counts,
        "read_until": None if hidden else read_until.isoformat(),
        **extent,
        "output": arguments.output,
        "tables": [table.name for table in tables.values()],
        "warnings": warnings,
        "seconds": round(time.monotonic() - started, 1),
    }
    write_summary(storage, summary_path, summary)
    return summary


def _joined(rows: DataFrame, later: DataFrame) -> DataFrame:
    """Add the rows of a scan that began where this one ended; of two commits of a partition, the later one counts."""
    keys = ["group_id", "topic", "partition"]
    newer = later.where("kind = 'commit'").select(*keys)
    return rows.join(F.broadcast(newer), keys, "left_anti").unionByName(later)


def _extent(committed: DataFrame, found: DataFrame) -> dict[str, Any]:
    oldest, newest = (F.date_format(of("committed_at"), "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'") for of in (F.min, F.max))
    of_commits = committed.agg(
        F.count("*").alias("commits"), oldest.alias("oldest_commit"), newest.alias("newest_commit")
    ).collect()[0]
    of_groups = found.selectExpr("count(*) AS groups", "count(quiet_since) AS quiet_groups").collect()[0]
    return of_commits.asDict() | of_groups.asDict()


_program = Program(JOB, __doc__, _add_arguments, _check, run, f"Nothing was written that counts. {RIGHTS}")
parse_arguments, main = _program.parse_arguments, _program.main
