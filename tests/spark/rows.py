"""Rows of snapshots as DataFrames, and a storage that only Hadoop knows."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from airflow_kafka_groups.spark.frames import SNAPSHOT_SCHEMA
from airflow_kafka_groups.spark.unread.ranges import BacklogContext
from tests.histories.shorthand import SnapshotRow

_SCHEMA = StructType([StructField(field.name, field.dataType) for field in SNAPSHOT_SCHEMA])


def snapshot_rows(spark: SparkSession, rows: Sequence[SnapshotRow]) -> DataFrame:
    """Return rows of a snapshot as Spark reads them: nobody has checked which are null."""
    return spark.createDataFrame([tuple(row[name] for name in _SCHEMA.names) for row in rows], _SCHEMA)


def a_slice(run_id: str, number: int = 1, attempt: int = 1) -> BacklogContext:
    """Return what a transform knows of a slice of a run."""
    return BacklogContext(
        run_id=run_id,
        group_id=f"group of {run_id}",
        kafka_cluster_id="k",
        slice=number,
        slices=3,
        attempt=attempt,
        ranges=(),
        repeats=attempt > 1,
    )


def storage_elsewhere(spark: SparkSession, folder: Path) -> str:
    """Return a folder as a storage of another kind."""
    table = f"t{random.randrange(2**32)}"
    spark._jsc.hadoopConfiguration().set(f"fs.viewfs.mounttable.{table}.link./here", folder.as_uri())
    return f"viewfs://{table}/here"


def watch_statements(
    monkeypatch: pytest.MonkeyPatch,
    before: Callable[[str], object] = str,
    after: Callable[[str], object] = str,
) -> None:
    """Call functions before and after each statement of SQL."""
    asked = SparkSession.sql

    def sql(session: SparkSession, text: str, *more: Any, **frames: Any) -> Any:
        before(text)
        answer = asked(session, text, *more, **frames)
        after(text)
        return answer

    monkeypatch.setattr(SparkSession, "sql", sql)
