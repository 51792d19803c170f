"""Judge which groups of a cluster are stale, or of several.

Reads the snapshots of a cluster and writes one verdict per group, see docs/formats.md. The verdicts are valid only
with the summary file, which is deleted first and written last: nothing can be planned from those of a job that failed.
Of several clusters, one that fails holds no other up. Exit code 5: the summary names those that failed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.exceptions import ArgumentError
from airflow_kafka_groups.judge.evidence import COMMIT_LOG_MODES, OFF, REQUIRED, Evidence
from airflow_kafka_groups.judge.staleness.policy import add_policy, count, duration, policy_of
from airflow_kafka_groups.judge.workers import CALLERS, Workers
from airflow_kafka_groups.observe.history.fleet import (
    ALL,
    PLACEHOLDER,
    check_clusters,
    fleet_summary,
    is_one,
    of_each_cluster,
)
from airflow_kafka_groups.observe.history.snapshots import History, find_history, require_left
from airflow_kafka_groups.spark.logs import logged, warn
from airflow_kafka_groups.spark.offsets_topic.known_commits import NOT_KNOWN, LastCommits
from airflow_kafka_groups.spark.options import (
    KAFKA_PROPERTIES,
    TABLE,
    add_base,
    add_table,
    check_tables,
    folder_path,
)
from airflow_kafka_groups.spark.program import Program, write_summary
from airflow_kafka_groups.spark.session.packages import WORKER_PACKAGES, require_packages
from airflow_kafka_groups.spark.session_on_demand import SessionOnDemand
from airflow_kafka_groups.storage import paths
from airflow_kafka_groups.storage.file_storage import Storage
from airflow_kafka_groups.storage.job_outputs import require_own_summary, require_replaceable
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from airflow_kafka_groups.storage.schemas import VERDICT_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_kafka_groups.judge.staleness.observations import Reduction
    from airflow_kafka_groups.spark.catalogue import CatalogueTable

JOB = "judge_staleness"
_SHOWN = 20
_DRIVER_ROWS = 20_000_000
"""On executors, Python has to start first."""

_OBSERVATIONS_TABLE = "--observations-table"


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
        help="the brokers' offsets.retention.minutes, to tell when offsets expire (default 0: as the snapshot has it)",
    )
    add(
        "--driver-rows",
        type=count,
        default=_DRIVER_ROWS,
        help=f"rows up to which the driver reduces new snapshots by itself, without executors (default {_DRIVER_ROWS})",
    )
    add("--commit-history", metavar="FOLDER", help="output of the job commit_history: the last commit is movement, too")
    add(
        "--commit-log",
        choices=COMMIT_LOG_MODES,
        default=OFF,
        help="read last commits from __consumer_offsets itself: where possible (auto), never (default), or fail",
    )
    add(KAFKA_PROPERTIES, metavar="FILE", help="properties of Kafka's Java client, for --commit-log")
    add("--snapshot-id", help="snapshot to judge (default: the newest that is not of named groups)")
    add(
        "--output",
        type=folder_path,
        help="folder of the verdicts (default BASE/CLUSTER/tables/verdicts/snapshot_id=SNAPSHOT_ID)",
    )
    add("--summary", help="file of the summary (default OUTPUT.json, or below BASE/CLUSTER/summaries/verdicts)")
    add_table(parser, "the verdicts")
    add_table(parser, "the observations that it does not have yet", _OBSERVATIONS_TABLE)


def run(spark: SparkSession | SessionOnDemand, arguments: argparse.Namespace) -> dict[str, Any]:
    """Judge one cluster or several, write verdicts and summaries, and return the summary."""
    if not isinstance(spark, SessionOnDemand):
        with SessionOnDemand(JOB, spark) as session:
            return run(session, arguments)
    session, started = spark, time.monotonic()
    require_packages(WORKER_PACKAGES)
    if reads_commits(arguments):
        session.get()  # or fail, before anything is deleted
    if arguments.output:  # paths below --base must be shared in any case, or they could not be read
        session.require_shared(arguments.output)
        require_replaceable(
            session.storage(arguments.output), arguments.output, [column.name for column in VERDICT_COLUMNS]
        )
    if summary_path := arguments.summary or (arguments.output and f"{arguments.output}.json"):
        option, value = ("--summary", summary_path) if arguments.summary else ("--output", arguments.output)
        require_own_summary(session.storage(summary_path), summary_path, JOB, option, value)
    tables, storage = _tables(session, arguments), session.storage(arguments.base)
    # Only where requests are waited for; and a session's state is that of one thread.
    waits = not (storage.is_local or is_one(arguments.cluster) or session.of_cluster())
    with Workers(session.cores, is_local=storage.is_local, callers=CALLERS if waits else 1) as workers:
        judge_cluster = partial(_judge_cluster, session, arguments, tables, workers)
        if is_one(arguments.cluster):
            return judge_cluster(arguments.cluster[0])
        judged, failed = of_each_cluster(
            storage, arguments.base, arguments.cluster, judge_cluster, warn, workers.side_by_side
        )
    seconds = round(time.monotonic() - started, 2)
    return {"job": JOB, **fleet_summary(judged, failed), "warnings": session.warnings, "seconds": seconds}


def _tables(session: SessionOnDemand, arguments: argparse.Namespace) -> dict[str, CatalogueTable]:
    names = {TABLE: arguments.table, _OBSERVATIONS_TABLE: arguments.observations_table}
    if not any(names.values()):
        return {}
    from airflow_kafka_groups.spark.catalogue import CatalogueTable
    from airflow_kafka_groups.spark.frames import OBSERVATION_SCHEMA, VERDICT_SCHEMA

    schemas = {TABLE: VERDICT_SCHEMA, _OBSERVATIONS_TABLE: OBSERVATION_SCHEMA}
    return {
        option: CatalogueTable(session.get(), name, schemas[option], option=option)
        for option, name in names.items()
        if name
    }


def _judge_cluster(
    session: SessionOnDemand,
    arguments: argparse.Namespace,
    tables: Mapping[str, CatalogueTable],
    workers: Workers,
    cluster: str,
) -> dict[str, Any]:
    started = time.monotonic()
    storage = session.storage(f"{arguments.base}/{cluster}")
    history = find_history(
        storage,
        arguments.base,
        cluster,
        snapshot_id=arguments.snapshot_id,
        max_snapshots=arguments.max_snapshots,
        max_days=arguments.max_days,
    )
    with workers.alone(history.judged.groups):
        return _judge_history(session, arguments, tables, workers, storage, history, started)


def _judge_history(
    session: SessionOnDemand,
    arguments: argparse.Namespace,
    tables: Mapping[str, CatalogueTable],
    workers: Workers,
    storage: Storage,
    history: History,
    started: float,
) -> dict[str, Any]:
    # They need numpy and pyarrow, and --help does not.
    from airflow_kafka_groups.judge.staleness.judging import judge, judged_history, write_verdicts

    cluster, policy = history.judged.cluster, policy_of(arguments)
    reduction = _reduction(session, storage, history, workers, arguments.driver_rows)
    judged_by = judged_history(storage, history, policy, workers, reduction)
    groups, snapshot_id = judged_by.groups, history.judged.snapshot_id
    retention = arguments.offsets_retention_minutes or history.judged.offsets_retention_minutes or 0
    verdicts_table = paths.TableName.VERDICTS
    output = arguments.output or f"{history.folder}/{paths.partition(verdicts_table, snapshot_id)}"
    in_history = f"{history.folder}/{paths.summary(verdicts_table, snapshot_id)}"
    own_summary = f"{output}.json" if arguments.output else in_history
    summary_path = arguments.summary or own_summary
    for path in {summary_path} if arguments.output else {summary_path, own_summary}:  # of verdicts that are replaced
        session.storage(path).remove(path)
    commits = asked_for(session.get, arguments, history.judged)
    logged(commits.warnings)
    records = commits.times()
    verdicts = (
        [
            judge(life.with_last_records(*at, judged_by.observed_from), policy, retention)
            for life in part
            for at in (records.get(life.group_id, NOT_KNOWN),)
        ]
        for part in judged_by.lives.judged()
    )
    by_verdict, lag, files = write_verdicts(session.storage(output), verdicts, output)
    if _OBSERVATIONS_TABLE in tables:
        from airflow_kafka_groups.spark.catalogue import add_observations

        add_observations(session.get(), judged_by, tables[_OBSERVATIONS_TABLE], cluster)
    if TABLE in tables:
        from airflow_kafka_groups.spark.frames import VERDICT_SCHEMA, read_stored

        written = read_stored(session.get(), VERDICT_SCHEMA).parquet(output)
        tables[TABLE].replace(cluster, written, {snapshot_id: groups})
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
        "offsets_retention_minutes": retention,
        "policy": asdict(policy),
        "output": output,
        "files": files,
        "tables": [table.name for table in tables.values()],
        "warnings": [*session.warnings, *commits.warnings],
        "seconds": round(time.monotonic() - started, 2),
    }
    vouching = session.storage(summary_path)
    # A plan refuses it without a number, and a pruning heeds it: where the job is killed now, nothing is judged.
    write_summary(vouching, summary_path, {**summary, "groups": None})
    require_left(storage, history, partial(vouching.remove, summary_path))
    write_summary(vouching, summary_path, summary)
    return summary


def _reduction(
    session: SessionOnDemand, storage: Storage, history: History, workers: Workers, driver_rows: int
) -> Reduction:
    from airflow_kafka_groups.judge.staleness.observations import Reduction

    if (spark := session.of_cluster()) is None:
        return Reduction(storage, history, workers)
    from airflow_kafka_groups.spark.reduction import ClusterReduction

    return ClusterReduction(spark, storage, history, workers, driver_rows)


def _check(arguments: argparse.Namespace) -> None:
    policy_of(arguments)
    check_tables(arguments.table, _OBSERVATIONS_TABLE, arguments.observations_table)
    check_clusters(
        arguments.cluster,
        of_one={"--output": arguments.output, "--summary": arguments.summary, "--snapshot-id": arguments.snapshot_id},
        of_each={KAFKA_PROPERTIES: arguments.kafka_properties, "--commit-history": arguments.commit_history},
    )
    if arguments.max_snapshots < 1:
        raise ArgumentError("--max-snapshots", arguments.max_snapshots, "give 1 or more")
    if arguments.driver_rows < 0:
        raise ArgumentError("--driver-rows", arguments.driver_rows, "give 0 (the executors do it) or more")
    if not 0 <= arguments.max_days <= 36_600:
        raise ArgumentError("--max-days", arguments.max_days, "give 0 (no limit) or a number of days up to 36600")
    if arguments.offsets_retention_minutes < 0:
        remedy = "give what the brokers' offsets.retention.minutes says, or 0 to use the snapshot's value"
        raise ArgumentError("--offsets-retention-minutes", arguments.offsets_retention_minutes, remedy)
    if arguments.commit_history is not None and arguments.commit_log != OFF:
        raise ArgumentError("--commit-log", arguments.commit_log, "leave it out, or leave --commit-history out")
    if arguments.commit_log == REQUIRED and arguments.kafka_properties is None:
        raise ArgumentError("--commit-log", REQUIRED, f"give {KAFKA_PROPERTIES} too")
    if arguments.snapshot_id is not None and not paths.is_id(arguments.snapshot_id):
        raise ArgumentError("--snapshot-id", arguments.snapshot_id, f"give an id as {paths.ID_EXAMPLE}")


_program = Program(JOB, __doc__, _add_arguments, _check, run, "Nothing was judged", starts_later=True)
parse_arguments, main = _program.parse_arguments, _program.main


def reads_commits(arguments: argparse.Namespace) -> bool:
    """Return whether a judgement reads last commits, which needs Spark."""
    of_log = arguments.commit_log != OFF and arguments.kafka_properties is not None
    return of_log or arguments.commit_history is not None


def asked_for(
    session: Callable[[], SparkSession], arguments: argparse.Namespace, judged: SnapshotManifest
) -> LastCommits:
    """Return the last commits that a judgement asks for.

    :param session: returns the session, which is started only if it is needed.
    :param judged: the snapshot that is judged.

    Raises as ``read_folder`` and ``read_log`` do.
    """
    if not reads_commits(arguments):
        why = "it was not asked for" if arguments.commit_log == OFF else "the job was given no --kafka-properties"
        return LastCommits(evidence=Evidence(not_read=why))
    from airflow_kafka_groups.spark.offsets_topic.last_commits import read_folder, read_log

    if arguments.commit_history is not None:
        folder = arguments.commit_history.replace(PLACEHOLDER, judged.cluster).rstrip("/")
        return read_folder(session(), folder, judged.kafka_cluster_id)
    path = arguments.kafka_properties.replace(PLACEHOLDER, judged.cluster)
    return read_log(session(), path, arguments.commit_log, judged, arguments.min_idle_seconds)
