"""Judge which groups of a cluster are stale, or of several.

Reads the snapshots of a cluster and writes one verdict per group, see docs/formats.md. The verdicts are valid only
with the summary file, which is deleted first and written last: nothing can be planned from those of a job that failed.
Of several clusters, one that fails holds no other up. Exit code 5: the summary names those that failed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.durations import read_duration
from airflow_kafka_groups.exceptions import ArgumentError, JobError, StorageError
from airflow_kafka_groups.judge.evidence import COMMIT_LOG_MODES, OFF, REQUIRED, Evidence, LastCommits
from airflow_kafka_groups.judge.staleness.policy import StalenessPolicy
from airflow_kafka_groups.observe.history.fleet import (
    ALL,
    PLACEHOLDER,
    check_clusters,
    fleet_summary,
    is_one,
    of_each_cluster,
)
from airflow_kafka_groups.observe.history.snapshots import find_history, require_left
from airflow_kafka_groups.spark.options import KAFKA_PROPERTIES, TABLE, add_base, add_table
from airflow_kafka_groups.spark.program import Program, logged, warn, write_summary
from airflow_kafka_groups.storage import paths
from airflow_kafka_groups.storage.file_storage import Storage
from airflow_kafka_groups.storage.manifest import SnapshotManifest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_kafka_groups.judge.staleness.observation_store import ObservationStore
    from airflow_kafka_groups.judge.staleness.one_process import OneProcess
    from airflow_kafka_groups.spark.catalogue import CatalogueTable
    from airflow_kafka_groups.spark.judging import InTasks

JOB = "judge_staleness"
_SHOWN = 20
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
    add(
        *("--min-idle", "--min-idle-seconds"),
        dest="min_idle_seconds",
        metavar="TIME",
        required=True,
        type=_duration("seconds"),
        help="idle time a stale group must have, such as 7d, or seconds (inclusive)",
    )
    add("--min-observations", type=int, default=2, help="observations within the idle time (default 2)")
    add(
        *("--max-gap", "--max-gap-seconds"),
        dest="max_gap_seconds",
        metavar="TIME",
        type=_duration("seconds"),
        default=0.0,
        help="a longer gap restarts the idle time (default 0: no limit)",
    )
    add("--max-snapshots", type=int, default=5000, help="complete snapshots to use (default 5000)")
    add("--max-days", type=_duration("days"), default=0.0, help="days of history to use (default 0: no limit)")
    add(
        "--offsets-retention-minutes",
        type=int,
        default=0,
        help="the brokers' offsets.retention.minutes, to tell when offsets expire (default 0: as the snapshot has it)",
    )
    add(
        "--commit-log",
        choices=COMMIT_LOG_MODES,
        default=OFF,
        help="read last commits from __consumer_offsets itself: where possible (auto), never (default), or fail",
    )
    add(KAFKA_PROPERTIES, metavar="FILE", help="properties of Kafka's Java client, for --commit-log")
    add("--snapshot-id", help="snapshot to judge (default: the newest that is not of named groups)")
    add_table(parser, "the verdicts")
    add_table(parser, "the observations that it does not have yet", _OBSERVATIONS_TABLE)


def _duration(unit: str) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            return read_duration(text, unit)
        except ValueError as exc:
            raise argparse.ArgumentTypeError(str(exc)) from None

    return read


def _policy(arguments: argparse.Namespace) -> StalenessPolicy:
    return StalenessPolicy(**{name: getattr(arguments, name) for name in StalenessPolicy.__slots__})


def run(spark: SparkSession, arguments: argparse.Namespace) -> dict[str, Any]:
    """Judge one cluster or several in Spark's tasks, write verdicts and summaries, and return the summary."""
    from airflow_kafka_groups.spark.hadoop_storage import storage_of
    from airflow_kafka_groups.spark.judging import InTasks
    from airflow_kafka_groups.spark.session import prepare

    warnings = logged(prepare(spark))
    tables = _tables(spark, arguments)
    return _run(_Judging(arguments, partial(storage_of, spark), InTasks(spark), spark, tables, warnings))


def run_here(storage: Callable[[str], Storage], arguments: argparse.Namespace) -> dict[str, Any]:
    """Judge as ``run`` does in this process, without Spark.

    :param storage: returns the storage of a path.

    Raises ``JobError`` for what needs Spark.
    """
    from airflow_kafka_groups.judge.staleness.one_process import OneProcess

    if arguments.table or arguments.observations_table or (arguments.kafka_properties and arguments.commit_log != OFF):
        raise JobError(f"{TABLE}, {_OBSERVATIONS_TABLE} and {KAFKA_PROPERTIES} need Spark, and this runs without")
    try:
        return _run(_Judging(arguments, storage, OneProcess()))
    except MemoryError as exc:
        raise StorageError("there is no memory left for this judgement: give this process more") from exc


@dataclass(frozen=True, slots=True)
class _Judging:
    arguments: argparse.Namespace
    storage: Callable[[str], Storage]
    runner: InTasks | OneProcess
    spark: SparkSession | None = None
    tables: Mapping[str, CatalogueTable] = field(default_factory=dict)
    warnings: Sequence[str] = ()


def _run(judging: _Judging) -> dict[str, Any]:
    arguments, storage, started = judging.arguments, judging.storage, time.monotonic()
    judge_cluster = partial(_judge_cluster, judging)
    if is_one(arguments.cluster):
        return judge_cluster(arguments.cluster[0])
    judged, failed = of_each_cluster(storage(arguments.base), arguments.base, arguments.cluster, judge_cluster, warn)
    seconds = round(time.monotonic() - started, 2)
    return {"job": JOB, **fleet_summary(judged, failed), "warnings": [*judging.warnings], "seconds": seconds}


def _tables(spark: SparkSession, arguments: argparse.Namespace) -> dict[str, CatalogueTable]:
    from airflow_kafka_groups.spark.catalogue import CatalogueTable
    from airflow_kafka_groups.spark.frames import OBSERVATION_SCHEMA, VERDICT_SCHEMA

    names = {TABLE: arguments.table, _OBSERVATIONS_TABLE: arguments.observations_table}
    schemas = {TABLE: VERDICT_SCHEMA, _OBSERVATIONS_TABLE: OBSERVATION_SCHEMA}
    return {
        option: CatalogueTable(spark, name, schemas[option], option=option) for option, name in names.items() if name
    }


def _judge_cluster(judging: _Judging, cluster: str) -> dict[str, Any]:
    # They need numpy and pyarrow, and --help does not.
    from airflow_kafka_groups.judge.staleness.observation_store import ObservationStore

    started, arguments, runner = time.monotonic(), judging.arguments, judging.runner
    storage = judging.storage(f"{arguments.base}/{cluster}")
    history = find_history(
        storage,
        arguments.base,
        cluster,
        snapshot_id=arguments.snapshot_id,
        max_snapshots=arguments.max_snapshots,
        max_days=arguments.max_days,
    )
    snapshot_id, policy = history.judged.snapshot_id, _policy(arguments)
    store = ObservationStore(storage, history)
    runner.reduce(store)
    groups = store.stored[snapshot_id].groups
    retention = arguments.offsets_retention_minutes or history.judged.offsets_retention_minutes or 0
    output = f"{history.folder}/{paths.partition(paths.TableName.VERDICTS, snapshot_id)}"
    summary_path = f"{history.folder}/{paths.summary(paths.TableName.VERDICTS, snapshot_id)}"
    storage.remove(summary_path)  # of verdicts that are replaced
    commits = asked_for(judging.spark, arguments, history.judged)
    logged(commits.warnings)
    try:
        counts, files = runner.judge(store, policy, retention, output, commits.rows)
    except JobError:
        require_left(storage, history, lambda: None)  # a pruning takes observations, too
        raise
    if (judged := sum(counts.groups.values())) != groups:
        raise JobError(f"{judged} of {groups} groups were judged: another job changed {history.folder}. Run it again")
    if judging.spark is not None:
        _write_tables(judging.spark, judging.tables, store, output)
    observed = store.observed
    summary = {
        "job": JOB,
        "cluster": cluster,
        "snapshot_id": snapshot_id,
        "kafka_cluster_id": history.judged.kafka_cluster_id,
        "groups": groups,
        "named_groups": history.judged.of_named_groups,
        "verdicts": counts.groups,
        "lag": sum(counts.lag.values()),
        "lag_by_verdict": counts.lag,
        "oldest_observation": _iso(min(oldest for oldest, _ in observed)) if observed else None,
        "newest_observation": _iso(max(newest for _, newest in observed)) if observed else None,
        "commit_log": {"mode": arguments.commit_log, **commits.summary},
        "evidence": commits.evidence.to_json(),
        "snapshots_used": len(history.manifests),
        "snapshots_reduced": len(store.reduced),
        "first_snapshot": history.snapshot_ids[0],
        "snapshots_skipped": len(history.skipped),
        "skipped": [{"name": name, "why": why} for name, why in history.skipped[:_SHOWN]],
        "offsets_retention_minutes": retention,
        "policy": asdict(policy),
        "output": output,
        "files": files,
        "tables": [table.name for table in judging.tables.values()],
        "warnings": [*judging.warnings, *commits.warnings],
        "seconds": round(time.monotonic() - started, 2),
    }
    # A plan refuses it without a number, and a pruning heeds it: where the job is killed now, nothing is judged.
    write_summary(storage, summary_path, {**summary, "groups": None})
    require_left(storage, history, partial(storage.remove, summary_path))
    write_summary(storage, summary_path, summary)
    return summary


def _iso(micros: int) -> str:
    return f"{datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micros):%Y-%m-%dT%H:%M:%S.%fZ}"


def _write_tables(
    spark: SparkSession, tables: Mapping[str, CatalogueTable], store: ObservationStore, output: str
) -> None:
    from airflow_kafka_groups.spark.catalogue import add_observations
    from airflow_kafka_groups.spark.frames import VERDICT_SCHEMA, read_stored

    judged = store.history.judged
    if _OBSERVATIONS_TABLE in tables:
        add_observations(spark, store, tables[_OBSERVATIONS_TABLE], judged.cluster)
    if TABLE in tables:
        written = read_stored(spark, VERDICT_SCHEMA).parquet(output)
        tables[TABLE].replace(judged.cluster, written, {judged.snapshot_id: store.stored[judged.snapshot_id].groups})


def _check(arguments: argparse.Namespace) -> None:
    _policy(arguments)
    check_clusters(
        arguments.cluster,
        of_one={"--snapshot-id": arguments.snapshot_id},
        of_each={KAFKA_PROPERTIES: arguments.kafka_properties},
    )
    if arguments.max_snapshots < 1:
        raise ArgumentError("--max-snapshots", arguments.max_snapshots, "give 1 or more")
    if not 0 <= arguments.max_days <= 36_600:
        raise ArgumentError("--max-days", arguments.max_days, "give 0 (no limit) or a number of days up to 36600")
    if arguments.offsets_retention_minutes < 0:
        remedy = "give what the brokers' offsets.retention.minutes says, or 0 to use the snapshot's value"
        raise ArgumentError("--offsets-retention-minutes", arguments.offsets_retention_minutes, remedy)
    if arguments.commit_log == REQUIRED and arguments.kafka_properties is None:
        raise ArgumentError("--commit-log", REQUIRED, f"give {KAFKA_PROPERTIES} too")
    if arguments.snapshot_id is not None and not paths.is_id(arguments.snapshot_id):
        raise ArgumentError("--snapshot-id", arguments.snapshot_id, f"give an id as {paths.ID_EXAMPLE}")


_IMPORTS = (
    "pandas",
    "airflow_kafka_groups.judge.staleness.one_process",
    "airflow_kafka_groups.judge.staleness.buckets",
)
_program = Program(JOB, __doc__, _add_arguments, _check, run, "Nothing was judged", imports=_IMPORTS)
parse_arguments, main = _program.parse_arguments, _program.main


def asked_for(spark: SparkSession | None, arguments: argparse.Namespace, judged: SnapshotManifest) -> LastCommits:
    """Return the last commits that a judgement asks for. Raises as ``read_log`` does."""
    if spark is None or arguments.commit_log == OFF or arguments.kafka_properties is None:
        why = "it was not asked for" if arguments.commit_log == OFF else "the job was given no --kafka-properties"
        return LastCommits(evidence=Evidence(not_read=why))
    from airflow_kafka_groups.spark.kafka.offsets_topic import read_log

    path = arguments.kafka_properties.replace(PLACEHOLDER, judged.cluster)
    return read_log(spark, path, arguments.commit_log, judged, arguments.min_idle_seconds)
