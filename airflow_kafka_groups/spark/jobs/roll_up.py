"""Roll up the verdicts of all clusters by day.

For each cluster and day, the last judgement of the day becomes one row for each verdict, with its groups and lag; that
of a snapshot of named groups only where the day has no other. Summaries are read, and manifests of days with several.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import ArgumentError, JobError, StorageError
from airflow_kafka_groups.judge.verdict_names import VerdictName
from airflow_kafka_groups.observe.history.fleet import ALL, check_clusters, of_each_cluster
from airflow_kafka_groups.spark.catalogue import CatalogueTable
from airflow_kafka_groups.spark.frames import ROLL_UP_SCHEMA
from airflow_kafka_groups.spark.hadoop_storage import require_shared, storage_of
from airflow_kafka_groups.spark.logs import logged, warn
from airflow_kafka_groups.spark.options import add_base, add_table
from airflow_kafka_groups.spark.program import Program
from airflow_kafka_groups.spark.session.preflight import prepare
from airflow_kafka_groups.spark.session.settings import PARTITION_BY_PARTITION, settings_of_write
from airflow_kafka_groups.storage import paths
from airflow_kafka_groups.storage.file_storage import Storage

JOB = "roll_up"
_KEYS = ("cluster", "day")
_MOST_DAYS = 36_600
_READERS = 8
_LARGEST = 2**63 - 1
"""Spark would refuse the rows of all clusters for a larger number in one."""


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
    found, failed = of_each_cluster(
        storage, arguments.base, arguments.cluster, lambda cluster: _days(storage, arguments.base, cluster, since), warn
    )
    rows = [(cluster, day, *row) for cluster, days in found.items() for day, of_day in days.items() for row in of_day]
    columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in ROLL_UP_SCHEMA)
    made = spark.createDataFrame(rows, f"cluster string, day string, {columns}")
    if table and rows:
        table.replace_all(
            made, {(cluster, day): len(of) for cluster, days in found.items() for day, of in days.items()}
        )
    if arguments.output:
        with settings_of_write(spark, PARTITION_BY_PARTITION):
            made.coalesce(1).write.mode("overwrite").partitionBy(*_KEYS).parquet(arguments.output)
    return {
        "job": JOB,
        "clusters": {cluster: len(days) for cluster, days in found.items()},
        "failed": failed,
        "since": since,
        "rows": len(rows),
        "output": arguments.output,
        "table": arguments.table,
        "warnings": warnings,
        "seconds": round(time.monotonic() - started, 1),
    }


def _days(storage: Storage, base: str, cluster: str, since: str) -> dict[str, list[tuple[str, str, int, int]]]:
    """Return the rows of the last judgement of each day."""
    folder = f"{base}/{cluster}"
    if not storage.exists(folder):
        raise JobError(f"there is no folder {folder}: check --base and --cluster")
    judged: dict[str, dict[str, str]] = defaultdict(dict)
    place = f"{folder}/{paths.summaries(paths.TableName.VERDICTS)}"
    for name in storage.files(place):
        snapshot_id = name.removesuffix(".json")
        if not paths.is_id(snapshot_id) or (day := f"{paths.time_of(snapshot_id):%Y-%m-%d}") < since:
            continue
        judged[day][snapshot_id] = f"{place}/{name}"
    with ThreadPoolExecutor(_READERS, thread_name_prefix="read") as readers:
        rows = readers.map(partial(_rows, storage, folder, cluster), judged.values())
        return {day: of_day for day, of_day in zip(judged, rows, strict=True) if of_day}


def _rows(storage: Storage, folder: str, cluster: str, summaries: dict[str, str]) -> list[tuple[str, str, int, int]]:
    """Return the rows of a day; none if no judgement of the day has come to its end.

    :param summaries: the paths of its summaries, by snapshot.
    """
    while summaries:
        snapshot_id = _last(storage, folder, sorted(summaries, reverse=True))
        path = summaries.pop(snapshot_id)
        text = storage.read_text(path)
        try:
            summary = json.loads(text)
            if (summary["snapshot_id"], summary["cluster"]) != (snapshot_id, cluster):
                raise JobError(f"{path} is the summary of another snapshot: it was copied or renamed. Move it back")
            if summary.get("groups", 0) is None:  # its job died before it knew that its snapshots are still there
                continue
            groups, lag = summary["verdicts"], summary["lag_by_verdict"]
            return [(snapshot_id, str(name), _number(groups[name]), _number(lag[name])) for name in VerdictName]
        except (ValueError, KeyError, TypeError) as exc:
            why = f"{type(exc).__name__}: {exc}"
            raise JobError(
                f"{path} is not a summary of judge_staleness ({why}), and no day of the cluster was rolled up: judge "
                f"again (--snapshot-id {snapshot_id}), or remove that file"
            ) from exc
    return []


def _last(storage: Storage, folder: str, newest_first: Sequence[str]) -> str:
    """Return a day's last judged snapshot; one of named groups, which is not the cluster, if there is no other."""
    for snapshot_id in newest_first if len(newest_first) > 1 else ():
        try:
            manifest = json.loads(storage.read_text(f"{folder}/{paths.manifest(snapshot_id)}"))
            if "group_ids" not in manifest["scope"]:
                return snapshot_id
        except (StorageError, ValueError, KeyError, TypeError):  # it is gone: its judgement is the last one
            return snapshot_id
    return newest_first[0]


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise ValueError(f"{value!r} is no number of groups or records")
    return value


_program = Program(JOB, __doc__, _add_arguments, _check, run, "Nothing was rolled up")
parse_arguments, main = _program.parse_arguments, _program.main
