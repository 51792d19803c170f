"""Run the job on snapshots on disk, and read what it wrote."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from airflow_kafka_groups.spark.jobs.judge_staleness import parse_arguments, run, run_here
from airflow_kafka_groups.storage.file_storage import LocalStorage
from tests.histories.lake import CLUSTER, write_snapshot
from tests.histories.shorthand import HOUR, SnapshotRow, seen, snapshot_id

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def judge(base: Path, *more: str, spark: SparkSession | None = None) -> dict[str, Any]:
    """Judge by snapshots on disk: in Spark's tasks if a session is given, and otherwise in this process."""
    given = ["--base", f"{base.as_uri()}/", "--cluster", CLUSTER, "--min-idle-seconds", str(HOUR), *more]
    arguments = parse_arguments(given)
    if spark is not None:
        return run(spark, arguments)
    return run_here(lambda _: LocalStorage(), arguments)


def verdicts(base: Path, number: float) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(verdict_folder(base, number)).to_pylist()
    return rows


def verdict_folder(base: Path, number: float) -> Path:
    return base / CLUSTER / "tables" / "verdicts" / f"snapshot_id={snapshot_id(number)}"


def verdict_summary(base: Path, number: float) -> Path:
    return base / CLUSTER / "summaries" / "verdicts" / f"{snapshot_id(number)}.json"


def hour_rows(number: int) -> list[SnapshotRow]:
    """Return the rows of an hour: a group that stands still, one that moves, and one that appears in hour 2."""
    return [
        *seen(number, group="stale"),
        *seen(number, group="moving", offsets={("t", 0): 50 + number}),
        *(seen(number, group="new") if number > 1 else []),
    ]


def write_hour(base: Path, number: int) -> None:
    """Write the snapshot of an hour."""
    write_snapshot(base, number, hour_rows(number))
