"""Roll up the verdicts of all clusters by day.

For each cluster and day, the last judgement of the day becomes one row for each verdict, with its groups and lag; that
of a snapshot of named groups only where the day has no other. Only summaries are read.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.exceptions import ArgumentError, JobError
from airflow_kafka_groups.judge.verdict_names import VerdictName
from airflow_kafka_groups.observe.history.fleet import ALL, check_clusters, of_each_cluster
from airflow_kafka_groups.spark.catalogue import CatalogueTable
from airflow_kafka_groups.spark.frames import ROLL_UP_SCHEMA, WHOLE
from airflow_kafka_groups.spark.hadoop_storage import require_shared, storage_of
from airflow_kafka_groups.spark.options import add_base, add_table
from airflow_kafka_groups.spark.program import Program, logged, warn
from airflow_kafka_groups.spark.session import PARTITION_BY_PARTITION, prepare, settings_of
from airflow_kafka_groups.storage import paths
from airflow_kafka_groups.storage.file_storage import Storage

JOB = "roll_up"
_KEYS = ("cluster", "day")
_MOST_DAYS = 36_600
_SUMMARIES = paths.summaries(paths.TableName.VERDICTS)
_SUMMARY = (
    "snapshot_id string, cluster string, groups long, named_groups boolean, verdicts map<string, long>, "
    "lag_by_verdict map<string, long>"
)
_PLACE = (
    f"regexp_extract(_metadata.file_path, '([^/]+)/{_SUMMARIES}/[^/]+$', 1) AS place",
    "regexp_extract(_metadata.file_name, '(.+)[.]json$', 1) AS asked",
    # Of a number that is none, or is too large, Spark makes a null, and keeps the text in `broken`.
    f"from_json(value, '{_SUMMARY}, broken string', map('columnNameOfCorruptRecord', 'broken')) AS found",
)
_NAMES = ", ".join(f"'{name}'" for name in VerdictName)
_PROBLEM = f"""
CASE WHEN broken IS NOT NULL OR NOT (snapshot_id <=> asked AND cluster <=> place) THEN 'none'
     WHEN groups IS NULL THEN 'died'
     WHEN NOT forall(array({_NAMES}), name -> coalesce(verdicts[name] >= 0 AND lag_by_verdict[name] >= 0, false))
     THEN 'none'
     WHEN named_groups THEN 'named' END AS problem
"""
_ROWS = (
    "place AS cluster",
    "concat_ws('-', substr(asked, 1, 4), substr(asked, 5, 2), substr(asked, 7, 2)) AS day",
    "asked AS snapshot_id",
    "verdict",
    "verdicts[verdict] AS groups",
    "lag_by_verdict[verdict] AS lag",
)
_REMEDY = (
    "{} is not the summary of judge_staleness for this snapshot, with a number of groups and records for each verdict, "
    "and no day of the cluster was rolled up: judge again (--snapshot-id {}), or remove that file"
)
Days = dict[tuple[str, str], str]
"""Snapshots by cluster and day."""

_MANY_FILES = {
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
    "spark.sql.files.openCostInBytes": "65536",
}
"""Settings for many small files: tasks of some hundred each, where Spark would list ten thousand by themselves."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_base(parser)
    add("--cluster", action="append", help=f"name of a cluster; repeatable (default '{ALL}': all in BASE)")
    add("--days", type=int, default=30, help="days to roll up, today included (default 30)")
    add("--output", help="folder of the table, whose other days stay")
    add_table(parser, "the rows")


def _check(arguments: argparse.Namespace) -> None:
    arguments.cluster = arguments.cluster or [ALL]
    check_clusters(arguments.cluster, of_one={}, of_each={})
    if not 1 <= arguments.days <= _MOST_DAYS:
        raise ArgumentError("--days", arguments.days, f"give a number of days from 1 to {_MOST_DAYS}")
    if not (arguments.output or arguments.table):
        raise ArgumentError("--output", None, "give a folder, a --table, or both")


def run(spark: SparkSession, arguments: argparse.Namespace) -> dict[str, Any]:
    """Write the rows and return the summary."""
    started = time.monotonic()
    warnings = logged(prepare(spark))
    table = CatalogueTable(spark, arguments.table, ROLL_UP_SCHEMA, _KEYS) if arguments.table else None
    if arguments.output:
        require_shared(spark, arguments.output)
    since = f"{datetime.now(UTC) - timedelta(days=arguments.days - 1):%Y-%m-%d}"
    storage = storage_of(spark, arguments.base)
    judged, failed = of_each_cluster(
        storage, arguments.base, arguments.cluster, lambda each: _judged(storage, arguments.base, each, since), warn
    )
    last = _last_of_days(spark, arguments.base, judged, failed)
    if last:
        made = _rows(spark, arguments.base, last)
        if table:
            table.replace_all(made, dict.fromkeys(last, len(VerdictName)))
        if arguments.output:
            with settings_of(spark, PARTITION_BY_PARTITION):
                made.write.mode("overwrite").partitionBy(*_KEYS).parquet(arguments.output)
    of_cluster = Counter(cluster for cluster, _ in last)
    return {
        "job": JOB,
        "clusters": {cluster: of_cluster[cluster] for cluster in judged if cluster not in failed},
        "failed": failed,
        "since": since,
        "rows": len(last) * len(VerdictName),
        "output": arguments.output,
        "table": arguments.table,
        "warnings": warnings,
        "seconds": round(time.monotonic() - started, 1),
    }


def _judged(storage: Storage, base: str, cluster: str, since: str) -> dict[str, list[str]]:
    folder = f"{base}/{cluster}"
    if not storage.exists(folder):
        raise JobError(f"there is no folder {folder}: check --base and --cluster")
    found = defaultdict[str, list[str]](list)
    names = [name.removesuffix(".json") for name in storage.files(f"{folder}/{_SUMMARIES}")]
    for snapshot_id in filter(paths.is_id, reversed(names)):
        if (day := f"{paths.time_of(snapshot_id):%Y-%m-%d}") >= since:
            found[day].append(snapshot_id)
    return found


def _last_of_days(
    spark: SparkSession, base: str, judged: Mapping[str, Mapping[str, list[str]]], failed: dict[str, str]
) -> Days:
    """Return the snapshot of the last judgement of each day that came to its end; add to the clusters that failed."""
    left = {(cluster, day): names for cluster, days in judged.items() for day, names in days.items()}
    last, of_named = Days(), Days()
    while left:
        chosen = {key: names[0] for key, names in left.items()}
        checked = _summaries(spark, base, chosen).where("problem IS NOT NULL").select("place", "asked", "problem")
        problems = {(place, asked): problem for place, asked, problem in checked.collect()}
        for (cluster, day), snapshot_id in chosen.items():
            problem = problems.get((cluster, snapshot_id))
            del left[cluster, day][0]
            if problem == "named":
                of_named.setdefault((cluster, day), snapshot_id)
            elif problem != "died":
                del left[cluster, day]
            if problem is None:
                last[cluster, day] = snapshot_id
            elif problem == "none" and cluster not in failed:
                failed[cluster] = _REMEDY.format(_path(base, cluster, snapshot_id), snapshot_id)
                warn(f"cluster {cluster} failed: {failed[cluster]}")
        left = {(cluster, day): names for (cluster, day), names in left.items() if names and cluster not in failed}
    return {(cluster, day): name for (cluster, day), name in (of_named | last).items() if cluster not in failed}


def _path(base: str, cluster: str, snapshot_id: str) -> str:
    return f"{base}/{cluster}/{_SUMMARIES}/{snapshot_id}.json"


def _summaries(spark: SparkSession, base: str, chosen: Days) -> DataFrame:
    """Return a row for each summary, with what is wrong with it in ``problem``."""
    files = [_path(base, cluster, snapshot_id) for (cluster, _), snapshot_id in chosen.items()]
    with settings_of(spark, _MANY_FILES):
        texts = spark.read.options(**WHOLE).text(files, wholetext=True)
    return texts.selectExpr(*_PLACE).selectExpr("place", "asked", "found.*").selectExpr("*", _PROBLEM)


def _rows(spark: SparkSession, base: str, last: Days) -> DataFrame:
    summaries = _summaries(spark, base, last).selectExpr("*", f"explode(array({_NAMES})) AS verdict")
    return summaries.selectExpr(*_ROWS).coalesce(1)


_program = Program(JOB, __doc__, _add_arguments, _check, run, "Nothing was rolled up")
parse_arguments, main = _program.parse_arguments, _program.main
