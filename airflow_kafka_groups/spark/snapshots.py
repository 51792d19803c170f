"""The rows of a snapshot as a DataFrame that tasks have checked: the driver reads its manifest, and no row."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.observe.history.snapshots import History, half_written, rows_of
from airflow_kafka_groups.observe.offset_values import LogEnds, Partition
from airflow_kafka_groups.shown import first_line
from airflow_kafka_groups.spark.errors import SPARK_ERRORS
from airflow_kafka_groups.spark.frames import SNAPSHOT_SCHEMA, read_stored
from airflow_kafka_groups.storage.schemas import SNAPSHOT_COLUMNS

_PLACE = ["topic", "partition"]
_OF_GROUP = ("group_id", "state", "topic", "partition", "committed_offset", "error")
_NO_TIME = 221_845_392_000_000_000
"""The microsecond after the last one of an id's time."""

_LACKING = " OR ".join(f"{each.name} IS NULL" for each in SNAPSHOT_COLUMNS if not each.nullable)
_CHECKS = (
    "count(*) AS rows",
    f"count_if({_LACKING}) AS lacking",
    f"count_if(NOT unix_micros(observed_at) BETWEEN 0 AND {_NO_TIME - 1}) AS of_no_time",
)


def read_snapshot(
    spark: SparkSession, history: History, *more: str, added: Callable[[DataFrame], DataFrame] = lambda rows: rows
) -> tuple[DataFrame, Row]:
    """Return the rows of the judged snapshot, and what is asked about them in the same reading.

    :param more: aggregates of its rows, in SQL.
    :param added: adds columns to its rows. Default: none.

    Raises ``SnapshotError`` unless all its rows are there, complete, and its own.
    """
    manifest, problem = history.judged, ""
    rows = read_stored(spark, SNAPSHOT_SCHEMA).parquet(*rows_of(history, manifest)).transform(added)
    foreign = F.max(F.when(F.col("run_id") != manifest.snapshot_id, F.col("run_id"))).alias("foreign")
    try:
        found = rows.agg(*map(F.expr, (*_CHECKS, *more)), foreign).collect()[0]
    except SPARK_ERRORS as exc:
        raise SnapshotError(half_written(manifest.snapshot_id, f"it cannot be read ({first_line(exc)})")) from exc
    if found["foreign"] is not None:
        problem = f"it has rows of snapshot {found['foreign']!r}, so a file was copied or renamed"
    elif found["rows"] != manifest.rows:
        problem = f"{found['rows']} rows where its manifest says {manifest.rows}"
    elif found["lacking"]:
        problem = f"{found['lacking']} rows lack a group, a time, a state or another required column"
    elif found["of_no_time"]:
        problem = f"{found['of_no_time']} rows have a time before 1970 or beyond the year 8999"
    if problem:
        raise SnapshotError(half_written(manifest.snapshot_id, problem))
    return rows, found


def rows_of_groups(rows: DataFrame, group_ids: Collection[str]) -> list[dict[str, Any]]:
    """Return what a snapshot has of these groups, in the driver."""
    # Of a name that is no text, such as an argument in another encoding, no snapshot has a group.
    wanted = [(name,) for name in group_ids if not any("\ud800" <= letter <= "\udfff" for letter in name)]
    asked = F.broadcast(rows.sparkSession.createDataFrame(wanted, "group_id string"))
    found = rows.join(asked, "group_id", "left_semi")
    return [row.asDict() for row in found.select(*_OF_GROUP).toLocalIterator()]


def logs_of(rows: DataFrame, wanted: Collection[Partition]) -> dict[Partition, LogEnds]:
    """Return the logs of these partitions, as a snapshot's rows have them."""
    if not wanted:
        return {}
    asked = F.broadcast(rows.sparkSession.createDataFrame(list(wanted), "topic string, partition int"))
    known = rows.join(asked, _PLACE, "left_semi").dropna(subset=["log_start", "log_end"])
    ends = known.groupBy(_PLACE).agg(F.max("log_start"), F.max("log_end")).collect()
    return {Partition(topic, number): LogEnds(start, end) for topic, number, start, end in ends}
