"""Judge which groups of a cluster are stale.

Reads the snapshots of one cluster and writes one verdict per group, see docs/formats.md. The verdicts are valid only
with the summary file, which is deleted first and written last: nothing can be planned from those of a job that failed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from airflow_kafka_groups.contracts import ids, paths
from airflow_kafka_groups.contracts.evidence import COMMIT_LOG_MODES, OFF, REQUIRED, Evidence
from airflow_kafka_groups.contracts.manifest import SnapshotManifest
from airflow_kafka_groups.spark.errors import ArgumentError
from airflow_kafka_groups.spark.files.output_checks import require_own_summary, require_replaceable, require_shared
from airflow_kafka_groups.spark.files.storage import Storage
from airflow_kafka_groups.spark.frames import OBSERVATION_SCHEMA, VERDICT_SCHEMA, read_stored
from airflow_kafka_groups.spark.kafka.properties import OPTION
from airflow_kafka_groups.spark.ledger.catalogue import TABLE_OPTION, CatalogueTable, add_table, check_tables
from airflow_kafka_groups.spark.ledger.fleet import (
    ALL,
    PLACEHOLDER,
    check_clusters,
    fleet_summary,
    is_one,
    of_each_cluster,
)
from airflow_kafka_groups.spark.ledger.snapshots import find_history
from airflow_kafka_groups.spark.preflight import WORKER_PACKAGES, logged, prepare, require_packages
from airflow_kafka_groups.spark.program import Program, add_base, check_folder, folder_path, write_summary
from airflow_kafka_groups.spark.staleness.policy import add_policy, count, duration, policy_of
from airflow_kafka_groups.spark.workers import DRIVER_ROWS

if TYPE_CHECKING:
    from airflow_kafka_groups.spark.offsets_topic.last_commits import LastCommits

JOB = "judge_staleness"
_SHOWN = 20
_OBSERVATIONS_TABLE = "--observations-table"
_LONGEST_RETENTION_MINUTES = 100 * 366 * 1440


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_base(parser)
    add(
        "--cluster",
        required=True,
        action="append",
        help=f"name of the cluster, as the snapshots have it; repeatable, '{ALL}' for all in BASE",
    )
    add_policy(parser)
    add("--max-snapshots", type=count, default=5000, help="complete snapshots to use (default 5000)")
    add("--max-days", type=duration("days"), default=0.0, help="days of history to use (default 0: no limit)")
    add(
        "--offsets-retention-minutes",
        type=count,
        default=0,
        help="the brokers' offsets.retention.minutes, to tell when offsets expire (default 0: not known)",
    )
    add(
        "--driver-rows",
        type=count,
        default=DRIVER_ROWS,
        help=f"rows up to which the driver reduces new snapshots by itself, without executors (default {DRIVER_ROWS})",
    )
    add("--mode", help=argparse.SUPPRESS)  # of earlier versions: there is one way now
    add("--commit-history", metavar="FOLDER", help="output of the job commit_history: the last commit is movement, too")
    add(
        "--commit-log",
        choices=COMMIT_LOG_MODES,
        default=OFF,
        help="read last commits from __consumer_offsets itself: where possible (auto), never (default), or fail",
    )
    add(OPTION, metavar="FILE", help="properties of Kafka's Java client, for --commit-log")
    add("--snapshot-id", help="snapshot to judge (default: the newest that is not of named groups)")
    add(
        "--output",
        type=folder_path,
        help="folder of the verdicts (default BASE/CLUSTER/tables/verdicts/snapshot_id=SNAPSHOT_ID)",
    )
    add("--summary", help="file of the summary (default OUTPUT.json, or below BASE/CLUSTER/summaries/verdicts)")
    add_table(parser, "the verdicts")
    add_table(parser, "the observations that it does not have yet", _OBSERVATIONS_TABLE)


def run(spark: SparkSession, arguments: argparse.Namespace) -> dict[str, Any]:
    """Judge one cluster or several, write verdicts and summaries, and return the summary."""
    started = time.monotonic()
    warnings = logged(prepare(spark))
    require_packages(WORKER_PACKAGES)
    if arguments.output:  # paths below --base must be shared in any case, or they could not be read
        require_shared(spark, arguments.output)
        require_replaceable(spark, arguments.output, VERDICT_SCHEMA.names)
    if summary_path := arguments.summary or (arguments.output and f"{arguments.output}.json"):
        option, value = ("--summary", summary_path) if arguments.summary else ("--output", arguments.output)
        require_own_summary(spark, summary_path, JOB, option, value)
    tables = {
        option: CatalogueTable(spark, name, schema, option=option)
        for option, name, schema in (
            (TABLE_OPTION, arguments.table, VERDICT_SCHEMA),
            (_OBSERVATIONS_TABLE, arguments.observations_table, OBSERVATION_SCHEMA),
        )
        if name
    }
    judge_cluster = partial(_judge_cluster, spark, arguments, tables, warnings)
    if is_one(arguments.cluster):
        return judge_cluster(arguments.cluster[0])
    judged, failed = of_each_cluster(spark, arguments.base, arguments.cluster, judge_cluster)
    return {
        "job": JOB,
        **fleet_summary(judged, failed),
        "warnings": warnings,
        "seconds": round(time.monotonic() - started, 2),
    }


def _judge_cluster(
    spark: SparkSession,
    arguments: argparse.Namespace,
    tables: Mapping[str, CatalogueTable],
    warnings: Sequence[str],
    cluster: str,
) -> dict[str, Any]:
    # They need numpy and pyarrow, and --help does not.
    from airflow_kafka_groups.spark.staleness.judging import judged_history, write_verdicts
    from airflow_kafka_groups.spark.staleness.verdicts import judge

    started = time.monotonic()
    history = find_history(
        spark,
        arguments.base,
        cluster,
        snapshot_id=arguments.snapshot_id,
        max_snapshots=arguments.max_snapshots,
        max_days=arguments.max_days,
    )
    policy = policy_of(arguments)
    judged_by = judged_history(spark, history, policy, arguments.driver_rows)
    groups, snapshot_id = judged_by.groups, history.judged.snapshot_id
    places = [f"{history.folder}/{path}" for place in paths.verdict_places(snapshot_id) for path in place]
    output = arguments.output or places[1]
    summary_path = arguments.summary or (f"{output}.json" if arguments.output else places[0])
    # What vouches for verdicts that are replaced, also of an earlier version.
    for path in {summary_path} if arguments.output else {summary_path, places[0], places[2]}:
        Storage(spark, path).delete_file(path)
    commits = _last_commits(spark, arguments, history.judged)
    logged(commits.warnings)
    committed_at = commits.times()
    verdicts = (
        [
            judge(
                life.with_last_commit(committed_at.get(life.group_id), judged_by.observed_from),
                policy,
                arguments.offsets_retention_minutes,
            )
            for life in part
        ]
        for part in judged_by.lives.judged()
    )
    by_verdict, lag, files = write_verdicts(Storage(spark, output), verdicts, output)
    if _OBSERVATIONS_TABLE in tables:
        judged_by.add_to(tables[_OBSERVATIONS_TABLE], cluster)
    if TABLE_OPTION in tables:
        written = read_stored(spark, VERDICT_SCHEMA).parquet(output)
        tables[TABLE_OPTION].replace(cluster, written, {snapshot_id: groups})
    summary = {
        "job": JOB,
        "cluster": cluster,
        "snapshot_id": snapshot_id,
        "kafka_cluster_id": history.judged.kafka_cluster_id,
        "groups": groups,
        "verdicts": by_verdict,
        "lag": sum(lag.values()),
        "lag_by_verdict": lag,
        "oldest_observation": judged_by.oldest,
        "newest_observation": judged_by.newest,
        "commit_history": arguments.commit_history,
        "commit_log": {"mode": arguments.commit_log, **commits.summary},
        "evidence": commits.evidence.to_json(),
        "snapshots_used": len(history.manifests),
        "snapshots_reduced": judged_by.reduced,
        "first_snapshot": history.snapshot_ids[0],
        "snapshots_skipped": len(history.skipped),
        "skipped": [{"name": name, "why": why} for name, why in history.skipped[:_SHOWN]],
        "offsets_retention_minutes": arguments.offsets_retention_minutes,
        "policy": asdict(policy),
        "output": output,
        "files": files,
        "tables": [table.name for table in tables.values()],
        "warnings": [*warnings, *commits.warnings],
        "seconds": round(time.monotonic() - started, 2),
    }
    write_summary(spark, summary_path, summary)
    return summary


def _check(arguments: argparse.Namespace) -> None:
    policy_of(arguments)
    check_folder("--output", arguments.output)
    check_tables(arguments.table, _OBSERVATIONS_TABLE, arguments.observations_table)
    check_clusters(
        arguments.cluster,
        of_one={"--output": arguments.output, "--summary": arguments.summary, "--snapshot-id": arguments.snapshot_id},
        of_each={OPTION: arguments.kafka_properties, "--commit-history": arguments.commit_history},
    )
    if arguments.max_snapshots < 1:
        raise ArgumentError("--max-snapshots", arguments.max_snapshots, "give 1 or more")
    if arguments.driver_rows < 0:
        raise ArgumentError("--driver-rows", arguments.driver_rows, "give 0 (the executors do it) or more")
    if not 0 <= arguments.max_days <= 36_600:
        raise ArgumentError("--max-days", arguments.max_days, "give 0 (no limit) or a number of days up to 36600")
    if not 0 <= arguments.offsets_retention_minutes <= _LONGEST_RETENTION_MINUTES:
        remedy = "give what the brokers' offsets.retention.minutes says, or 0 if it is not known or beyond 100 years"
        raise ArgumentError("--offsets-retention-minutes", arguments.offsets_retention_minutes, remedy)
    if arguments.commit_history is not None and arguments.commit_log != OFF:
        raise ArgumentError("--commit-log", arguments.commit_log, "leave it out, or leave --commit-history out")
    if arguments.commit_log == REQUIRED and arguments.kafka_properties is None:
        raise ArgumentError("--commit-log", REQUIRED, f"give {OPTION} too")
    if arguments.snapshot_id is not None and not ids.is_id(arguments.snapshot_id):
        raise ArgumentError("--snapshot-id", arguments.snapshot_id, f"give an id as {ids.ID_EXAMPLE}")


def _last_commits(spark: SparkSession, arguments: argparse.Namespace, judged: SnapshotManifest) -> LastCommits:
    from airflow_kafka_groups.spark.offsets_topic.last_commits import LastCommits, read_folder, read_log

    if arguments.commit_history is not None:
        folder = arguments.commit_history.replace(PLACEHOLDER, judged.cluster).rstrip("/")
        return read_folder(spark, folder, judged.kafka_cluster_id)
    if arguments.commit_log == OFF:
        return LastCommits(evidence=Evidence(not_read="it was not asked for"))
    path, mode = arguments.kafka_properties, arguments.commit_log
    path = path and path.replace(PLACEHOLDER, judged.cluster)
    return read_log(spark, path, mode, judged, arguments.min_idle_seconds)


_program = Program(JOB, __doc__, _add_arguments, _check, run, "Nothing was judged")
parse_arguments, main = _program.parse_arguments, _program.main
