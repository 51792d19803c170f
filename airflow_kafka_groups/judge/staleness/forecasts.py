"""Forecasts of a group's lag and of its offsets, as docs/spark/judge-staleness.md derives them. No decision uses them.

All of them are computed from two observations with known log ends: the newest, and the first of the current idle time
(or, for the lag trend of a group that is not idle, of its current life). Without known ends there is no forecast.
"""

from __future__ import annotations

from typing import Any

from airflow_kafka_groups.judge.staleness.lives import Life

SHORTEST_WINDOW_MICROS = 3_600_000_000
"""The shortest time for a trend: in less than an hour, a burst would look like a trend."""

_DAY_MICROS = 86_400_000_000
_LONGEST_MICROS = 100 * 366 * _DAY_MICROS


def forecasts(life: Life, idle_since: int | None, offsets_retention_minutes: int) -> dict[str, Any]:
    """Return four columns of the verdict by name; times in microseconds since 1970.

    :param offsets_retention_minutes: the brokers' ``offsets.retention.minutes``; without an expiry if it is 0 (unknown)
        or beyond 100 years (unlimited).
    """
    trend, since = _trend(life)
    retention = offsets_retention_minutes * 60_000_000
    expires = idle_since is not None and life.partitions > 0 and 0 < retention <= _LONGEST_MICROS
    return {
        "lag_trend": trend,
        "lag_trend_since": since,
        "offsets_expire_by": (idle_since or 0) + retention if expires else None,
        "data_loss_not_before": _data_loss(life),
    }


def _trend(life: Life) -> tuple[float | None, int | None]:
    """Return by how many messages a day the lag grows, and since when."""
    for at, lag in ((life.idle_lag_at, life.idle_lag), (life.life_lag_at, life.life_lag)):
        if life.lag is not None and (elapsed := _elapsed(life, at)):
            return float(life.lag - lag) * _DAY_MICROS / elapsed, at
    return None, None


def _data_loss(life: Life) -> int | None:
    """Return when the log's start passes the nearest offset at the pace of the idle time."""
    elapsed = _elapsed(life, life.idle_lag_at)
    if not elapsed or life.log_start is None or life.nearest is None:
        return None
    moved = life.log_start - life.idle_log_start
    if moved <= 0 or life.nearest < 0:
        return None
    left = float(life.nearest) * elapsed / float(moved)
    return life.observed_at + int(left) if left <= _LONGEST_MICROS else None


def _elapsed(life: Life, since: int | None) -> float | None:
    """Return the time from earlier known log ends to the newest.

    ``None`` if it is too short for a trend, or if one of both is not known: a group without commits has none.
    """
    ends_known = life.error is None and life.partitions > 0 and life.lag_unknown == 0
    if since is None or not ends_known or life.lag is None or life.log_start is None:
        return None
    elapsed = life.observed_at - since
    return float(elapsed) if elapsed >= SHORTEST_WINDOW_MICROS else None
