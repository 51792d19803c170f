"""Forecasts of a group's lag and of its offsets. No decision uses them.

All of them are computed from two observations with known log ends: the newest, and the first of the current idle time
(or, for the lag trend of a group that is not idle, of its current life). Without known
ends there is no forecast.

- ``lag_trend``: change of the group's lag between the two, in messages per day.
- ``offsets_expire_by``: a broker deletes offsets ``offsets.retention.minutes`` after a group became empty (KIP-211), or
  after each commit without a subscription. Both happened at ``idle_since`` or before, unless no snapshot shows it, so
  this is *not after*.
- ``data_loss_not_before``: retention moves log starts. One partition's start moved at most as far as all together, so
  at the same pace the nearest committed offset is not passed before this time.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, TimestampType

from airflow_kafka_groups.spark.frames import Transform

SHORTEST_WINDOW_MICROS = 3_600_000_000
"""The shortest time for a trend: in less than an hour, a burst would look like a trend."""

_DAY_MICROS = 86_400_000_000.0
_LONGEST_MICROS = 100 * 366 * _DAY_MICROS


def all_ends_known() -> Column:
    """Return whether an observation has committed offsets, and the log start and end of each of them."""
    known = F.col("error").isNull() & (F.col("partitions") > 0) & (F.col("lag_unknown") == 0)
    return known & F.col("lag").isNotNull() & F.col("log_start").isNotNull()


def with_forecasts(offsets_retention_minutes: int) -> Transform:
    """Add the four columns to a state with its idle times.

    :param offsets_retention_minutes: the brokers' ``offsets.retention.minutes``; 0 for unknown, without an expiry.
    """
    in_idle_time = all_ends_known() & (_since("idle_lag_at") >= SHORTEST_WINDOW_MICROS)
    in_life = all_ends_known() & (_since("life_lag_at") >= SHORTEST_WINDOW_MICROS)
    forecasts = {
        "lag_trend_since": F.when(in_idle_time, F.col("idle_lag_at")).when(in_life, F.col("life_lag_at")),
        "lag_trend": F.when(in_idle_time, _a_day("idle_lag")).when(in_life, _a_day("life_lag")),
        "offsets_expire_by": _expire_by(offsets_retention_minutes),
        "data_loss_not_before": F.when(in_idle_time, _data_loss()),
    }
    return lambda state: state.withColumns(forecasts)


def _since(column: str) -> Column:
    return F.unix_micros("observed_at") - F.unix_micros(column)


def _a_day(column: str) -> Column:
    change = (F.col("lag") - F.col(column)).cast(DoubleType())
    return F.try_divide(change * F.lit(_DAY_MICROS), _since(f"{column}_at").cast(DoubleType()))


def _expire_by(retention_minutes: int) -> Column:
    if not retention_minutes:
        return F.lit(None).cast(TimestampType())
    expires = F.timestamp_micros(F.unix_micros("idle_since") + F.lit(retention_minutes * 60_000_000))
    return F.when(F.col("idle_since").isNotNull() & (F.col("partitions") > 0), expires)


def _data_loss() -> Column:
    moved = F.col("log_start") - F.col("idle_log_start")
    distance = F.col("nearest").cast(DoubleType()) * _since("idle_lag_at").cast(DoubleType())
    left = F.try_divide(distance, moved.cast(DoubleType()))
    passed = F.timestamp_micros(F.unix_micros("observed_at") + F.floor(F.least(left, F.lit(_LONGEST_MICROS))))
    return F.when((moved > 0) & (F.col("nearest") >= 0), F.when(left <= F.lit(_LONGEST_MICROS), passed))
