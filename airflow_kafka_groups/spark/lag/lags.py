"""The lag of groups and its sums, as expressions of a snapshot's rows.

Messages are never negative and never guessed: the column ``flag`` explains a missing number. Seconds are the age of the
first unread record; ``lag_seconds_method`` names its clock: the producer's (``CreateTime``) or the broker's.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from airflow_kafka_groups.observe.offset_values import Partition, Timestamp
from airflow_kafka_groups.spark.frames import LAG_SCHEMA
from airflow_kafka_groups.storage.paths import TableName

_PLACE = ["topic", "partition", "first_offset"]
_TIMESTAMPS = "topic string, partition int, first_offset long, timestamp_ms long, clock string"
# The functions greatest() and least() pass over nulls: a commit without a log has a flag before they count.
_FIRST = "least(greatest(committed_offset, log_start), log_end)"
_FLAG = f"""
CASE WHEN error IS NOT NULL OR committed_offset IS NULL THEN 'unreadable'
     WHEN log_start IS NULL OR log_end IS NULL THEN 'unknown'
     WHEN committed_offset > log_end THEN 'beyond_end'
     WHEN committed_offset < {_FIRST} THEN 'data_lost' ELSE 'ok' END AS flag
"""
_HAS_LAG = "topic IS NOT NULL AND flag IN ('ok', 'data_lost')"
_MESSAGES = (
    f"CASE WHEN {_HAS_LAG} THEN log_end - {_FIRST} END AS lag",
    f"CASE WHEN {_HAS_LAG} THEN {_FIRST} - committed_offset ELSE 0 END AS lost",
    "greatest(committed_offset, log_start) AS first_offset",
)
# A producer's clock may say anything, such as nanoseconds: what is beyond this counts as this.
_LATEST_MS = 9_000_000_000_000_000
_SECONDS = (
    f"""
CASE WHEN lag = 0 THEN 0D WHEN lag > 0 AND timestamp_ms IS NOT NULL
     THEN greatest((unix_micros(observed_at) - least(timestamp_ms, {_LATEST_MS}) * 1000) / 1e6D, 0D) END AS lag_seconds
""",
    """
CASE WHEN lag IS NULL THEN flag WHEN lag = 0 THEN 'no_lag' WHEN clock IS NULL THEN 'not_looked_up'
     WHEN timestamp_ms IS NULL THEN 'no_record_found' ELSE 'first_unread_record:' || clock END AS lag_seconds_method
""",
)
_SUMS = (
    "count(DISTINCT group_id) AS groups",
    "count(*) AS partitions",
    "count_if(lag IS NULL) AS partitions_without_lag",
    "count_if(lag > 0 AND lag_seconds IS NULL) AS partitions_without_seconds",
    "coalesce(sum(lag), 0) AS lag",
    "max(lag) AS max_partition_lag",
    "sum(lost) AS lost",
    # Zero only if nothing is unread for certain: partitions that are read do not hide others without a time.
    "CASE WHEN bool_and(lag <=> 0) THEN 0D ELSE max(lag_seconds) FILTER (WHERE lag > 0) END AS max_lag_seconds",
)
SUM_NAMES = tuple(each.rpartition(" ")[2] for each in _SUMS)
"""The columns that ``sums`` adds to its keys."""

SUMMED_BY = {
    TableName.LAG_GROUPS: ("group_id", "owner", "state"),
    TableName.LAG_TOPICS: ("topic",),
    TableName.LAG_OWNERS: ("owner",),
}


def with_lag(rows: DataFrame) -> DataFrame:
    """Add the lag in messages to a snapshot's rows, and ``first_offset``, the first one unread."""
    return rows.selectExpr("*", _FLAG).selectExpr("*", *_MESSAGES)


def largest(lags: DataFrame, count: int) -> list[tuple[Partition, int]]:
    """Return the first unread offsets of the largest lags, each once."""
    most = lags.where("lag > 0").groupBy(_PLACE).agg(F.max("lag").alias("lag"))
    rows = most.orderBy(F.desc("lag"), *_PLACE).limit(count).collect()
    return [(Partition(row["topic"], row["partition"]), row["first_offset"]) for row in rows]


def of_partitions(lags: DataFrame, owner: Column, found: Collection[Timestamp]) -> DataFrame:
    """Return each committed partition with its lag in messages and in seconds: rows of ``LAG_SCHEMA``.

    :param lags: the rows of ``with_lag``.
    :param owner: the owner of a row's group.
    :param found: the timestamps of first unread records.
    """
    timestamps = F.broadcast(lags.sparkSession.createDataFrame(list(found), _TIMESTAMPS))
    timed = lags.where("topic IS NOT NULL").withColumn("owner", owner).join(timestamps, _PLACE, "left")
    return timed.selectExpr("*", *_SECONDS).select(*LAG_SCHEMA.names)


def sums(lags: DataFrame, *names: str) -> DataFrame:
    """Sum up the lag, largest first; ``partitions_without_lag`` counts the partitions without a number.

    :param lags: rows of ``LAG_SCHEMA``.
    :param names: the columns to group by, e.g. ``"owner"``; none for one row over all.
    """
    found = lags.groupBy(*names).agg(*map(F.expr, _SUMS))
    return found.repartition(1).sortWithinPartitions(F.desc("lag"), *names)
