"""Lag of groups: in messages from a snapshot's rows, and in seconds from the records' timestamps.

Messages are end minus committed, never negative and never guessed: the column ``flag`` explains a missing number.
Seconds are the age of the first unread record; ``lag_seconds_method`` names its clock: the producer's (``CreateTime``)
or the broker's (``LogAppendTime``). DataFrames in, DataFrames out; ``kafka/timestamps.py`` looks up the timestamps.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from airflow_kafka_groups.spark.errors import ArgumentError
from airflow_kafka_groups.spark.schemas import LAG_SCHEMA

UNOWNED = "unowned"
NO_LAG, NOT_LOOKED_UP, NO_RECORD = "no_lag", "not_looked_up", "no_record_found"

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
        return group_id.startswith(self.prefix) if self.prefix is not None else group_id.rlike(f"^(?:{self.regex})$")


def parse_owners(text: str, path: str) -> tuple[OwnerRule, ...]:
    """Parse a list of rules; the first matching rule applies.

    :param text: JSON such as ``[{"owner": "team-a", "prefix": "a."}, {"owner": "ops", "regex": "mon-[0-9]+"}]``.
    """
    try:
        rules = tuple(OwnerRule(**entry) for entry in json.loads(text))
        for rule in rules:
            if (rule.prefix is None) == (rule.regex is None):
                raise ValueError(f"the rule of {rule.owner!r} must have either a prefix or a regex")
            if not rule.owner:
                raise ValueError("a rule has no owner")
            re.compile(rule.regex or "")
    except (ValueError, TypeError, re.error) as exc:
        remedy = f'{exc}. Write it as [{{"owner": "team-a", "prefix": "a."}}, {{"owner": "ops", "regex": "mon-.*"}}]'
        raise ArgumentError("--owners", path, remedy) from exc
    return rules


def partition_lag(rows: DataFrame, owners: Sequence[OwnerRule] = ()) -> DataFrame:
    """Return each committed partition of a snapshot with its lag in messages."""
    committed, start, end = F.col("committed_offset"), F.col("log_start"), F.col("log_end")
    unknown = committed.isNull() | start.isNull() | end.isNull()
    flag = (
        F.when(F.col("error").isNotNull() | committed.isNull(), "unreadable")
        .when(unknown, "unknown")
        .when(committed > end, "recreated")
        .when(committed < start, "data_lost")
        .otherwise("ok")
    )
    owner = F.lit(UNOWNED)
    for rule in reversed(owners):
        owner = F.when(rule.matches(F.col("group_id")), rule.owner).otherwise(owner)
    return (
        rows.where(F.col("topic").isNotNull())
        .withColumns({"flag": flag, "owner": owner})
        .withColumns(
            {
                "lag": F.when(F.col("flag").isin("ok", "data_lost"), end - F.greatest(committed, start)),
                "lost": F.when(F.col("flag") == "data_lost", start - committed).otherwise(F.lit(0).cast("long")),
                "first_offset": F.greatest(committed, start),
            }
        )
    )


def with_seconds(lags: DataFrame, timestamps: DataFrame) -> DataFrame:
    """Add the lag in seconds: the age of the first unread record when the group was observed.

    :param lags: the result of ``partition_lag``.
    :param timestamps: rows of ``TIMESTAMP_SCHEMA``.
    """
    age = (F.unix_micros("observed_at") - F.col("timestamp_ms") * 1000) / 1_000_000
    looked = F.when(F.col("timestamp_ms").isNotNull(), F.concat(F.lit("first_unread_record:"), "clock"))
    method = (
        F.when(F.col("lag").isNull(), F.col("flag"))
        .when(F.col("lag") == 0, NO_LAG)
        .otherwise(F.coalesce(looked, F.when(F.col("clock").isNotNull(), NO_RECORD), F.lit(NOT_LOOKED_UP)))
    )
    seconds = F.when(F.col("lag") == 0, 0.0).when((F.col("lag") > 0) & (age < 0), 0.0).when(F.col("lag") > 0, age)
    joined = lags.join(timestamps, ["topic", "partition", "first_offset"], "left")
    return joined.withColumns({"lag_seconds": seconds, "lag_seconds_method": method}).select(*LAG_SCHEMA.names)


def by(lags: DataFrame, *names: str) -> DataFrame:
    """Sum up the lag; ``partitions_without_lag`` counts those without a number.

    :param lags: rows of ``LAG_SCHEMA``.
    :param names: the columns to group by, e.g. ``"owner"``; none for one row over all.
    """
    return lags.groupBy(*names).agg(
        F.countDistinct("group_id").alias("groups"),
        F.count("*").alias("partitions"),
        F.count_if(F.col("lag").isNull()).alias("partitions_without_lag"),
        F.count_if((F.col("lag") > 0) & F.col("lag_seconds").isNull()).alias("partitions_without_seconds"),
        F.coalesce(F.sum("lag"), F.lit(0)).alias("lag"),
        F.max("lag").alias("max_partition_lag"),
        F.sum("lost").alias("lost"),
        F.max("lag_seconds").alias("max_lag_seconds"),
    )
