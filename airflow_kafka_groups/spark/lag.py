"""Lag of groups: in messages from a snapshot's rows, and in seconds from the records' timestamps.

Messages are end minus committed, never negative and never guessed: the column ``flag`` explains a missing number.
Seconds are the age of the first unread record; ``lag_seconds_method`` names its clock: the producer's (``CreateTime``)
or the broker's (``LogAppendTime``). DataFrames in, DataFrames out; ``kafka/timestamps.py`` looks up the timestamps.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_groups.spark.errors import SPARK_ERRORS, ArgumentError, first_line
from airflow_kafka_groups.spark.frames import LAG_SCHEMA
from airflow_kafka_groups.spark.session import jvm_of

UNOWNED = "unowned"

_FLAG = """
CASE WHEN error IS NOT NULL OR committed_offset IS NULL THEN 'unreadable'
     WHEN log_start IS NULL OR log_end IS NULL THEN 'unknown'
     WHEN committed_offset > log_end THEN 'recreated'
     WHEN committed_offset < log_start THEN 'data_lost'
     ELSE 'ok' END
"""
_LAG = (
    "CASE WHEN flag IN ('ok', 'data_lost') THEN log_end - greatest(committed_offset, log_start) END AS lag",
    "CASE WHEN flag = 'data_lost' THEN log_start - committed_offset ELSE 0L END AS lost",
    "greatest(committed_offset, log_start) AS first_offset",
)
# A producer's clock may say anything, such as nanoseconds: what is beyond this counts as this.
_LATEST_MS = 9_000_000_000_000_000
_KNOWN_MS = f"IF(timestamp_ms > {_LATEST_MS}L, {_LATEST_MS}L, timestamp_ms)"
_AGE = f"(unix_micros(observed_at) - {_KNOWN_MS} * 1000) / 1000000 AS age"
_SECONDS = (
    "CASE WHEN lag = 0 OR (lag > 0 AND age < 0) THEN 0D WHEN lag > 0 THEN age END AS lag_seconds",
    """
    CASE WHEN lag IS NULL THEN flag
         WHEN lag = 0 THEN 'no_lag'
         WHEN clock IS NULL THEN 'not_looked_up'
         WHEN timestamp_ms IS NULL THEN 'no_record_found'
         ELSE 'first_unread_record:' || clock END AS lag_seconds_method
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
    "IF(bool_and(lag <=> 0), 0D, max(lag_seconds) FILTER (WHERE lag > 0)) AS max_lag_seconds",
)
SUM_NAMES = tuple(each.rpartition(" AS ")[2] for each in _SUMS)
"""The columns that ``by`` adds."""

TIMESTAMP_SCHEMA = "topic string, partition int, first_offset long, timestamp_ms long, clock string"
"""The timestamp of the first record at or after an offset; ``timestamp_ms`` is null if there is none."""


@dataclass(frozen=True, slots=True)
class OwnerRule:
    """The owner of groups whose id has a prefix, or matches a (Java) regular expression completely."""

    owner: str
    prefix: str | None = None
    regex: str | None = None

    def matches(self, group_id: Column) -> Column:
        """Return the condition."""
        return group_id.startswith(self.prefix) if self.prefix is not None else group_id.rlike(self.pattern)

    @property
    def pattern(self) -> str:
        """The regular expression for complete ids; that of a prefix means nothing."""
        return rf"\A(?:{self.regex or ''})\z"


def parse_owners(spark: SparkSession, text: str, path: str) -> tuple[OwnerRule, ...]:
    """Parse a list of rules; the first matching rule applies.

    :param text: JSON such as ``[{"owner": "team-a", "prefix": "a."}, {"owner": "ops", "regex": "mon-[0-9]+"}]``.
    """
    compiler = jvm_of(spark, "the check of regular expressions").java.util.regex.Pattern
    try:
        rules = tuple(OwnerRule(**entry) for entry in json.loads(text))
        for rule in rules:
            if {type(rule.prefix), type(rule.regex)} != {str, type(None)}:
                raise ValueError(f"the rule of {rule.owner!r} must have either a prefix or a regex")
            if not rule.owner:
                raise ValueError("a rule has no owner")
            if not isinstance(rule.owner, str):
                raise ValueError(f"the owner {rule.owner!r} of a rule is no text")
            try:
                compiler.compile(rule.regex or "")
                compiler.compile(rule.pattern)  # an open quotation or comment would go on behind it
            except SPARK_ERRORS as exc:
                problem = f"the regex {rule.regex!r} of {rule.owner!r} is not one of Java's: {first_line(exc)}"
                raise ValueError(problem) from exc
    except (ValueError, TypeError) as exc:
        remedy = f'{exc}. Write it as [{{"owner": "team-a", "prefix": "a."}}, {{"owner": "ops", "regex": "mon-.*"}}]'
        raise ArgumentError("--owners", path, remedy) from exc
    return rules


def partition_lag(rows: DataFrame, owners: Sequence[OwnerRule] = ()) -> DataFrame:
    """Return each committed partition of a snapshot with its lag in messages."""
    owner = F.lit(UNOWNED)
    for rule in reversed(owners):
        owner = F.when(rule.matches(F.col("group_id")), rule.owner).otherwise(owner)
    flagged = rows.where("topic IS NOT NULL").select("*", owner.alias("owner"), F.expr(_FLAG).alias("flag"))
    return flagged.selectExpr("*", *_LAG)


def with_seconds(lags: DataFrame, timestamps: DataFrame) -> DataFrame:
    """Add the lag in seconds: the age of the first unread record when the group was observed.

    :param lags: the result of ``partition_lag``.
    :param timestamps: rows of ``TIMESTAMP_SCHEMA``.
    """
    aged = lags.join(timestamps, ["topic", "partition", "first_offset"], "left").selectExpr("*", _AGE)
    return aged.selectExpr("*", *_SECONDS).select(*LAG_SCHEMA.names)


def by(lags: DataFrame, *names: str) -> DataFrame:
    """Sum up the lag; ``partitions_without_lag`` counts those without a number.

    :param lags: rows of ``LAG_SCHEMA``.
    :param names: the columns to group by, e.g. ``"owner"``; none for one row over all.
    """
    return lags.groupBy(*names).agg(*map(F.expr, _SUMS))
