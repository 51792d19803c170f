"""Forecasts of a group's lag and of its offsets, as docs/spark/judge-staleness.md derives them. No decision uses them.

All of them are computed from two observations with known log ends: the newest, and the first of the current idle time
(or, for the lag trend of a group that is not idle, of its current life). Without known ends there is no forecast.
"""

from __future__ import annotations

SHORTEST_WINDOW_MICROS = 3_600_000_000
"""The shortest time for a trend: in less than an hour, a burst would look like a trend."""

ENDS_KNOWN = "error IS NULL AND partitions > 0 AND lag_unknown = 0 AND lag IS NOT NULL AND log_start IS NOT NULL"
"""SQL: whether an observation has committed offsets, and the log start and end of each of them."""

_DAY_MICROS = 86_400_000_000
_LONGEST_MICROS = 100 * 366 * _DAY_MICROS


def forecasts(offsets_retention_minutes: int) -> dict[str, str]:
    """Return the four columns in SQL, by name, over a state with its idle times.

    :param offsets_retention_minutes: the brokers' ``offsets.retention.minutes``; 0 for unknown, without an expiry.
    """
    in_idle_time = f"{ENDS_KNOWN} AND {_since('idle_lag_at')} >= {SHORTEST_WINDOW_MICROS}"
    in_life = f"{ENDS_KNOWN} AND {_since('life_lag_at')} >= {SHORTEST_WINDOW_MICROS}"
    expires = f"timestamp_micros(unix_micros(idle_since) + {offsets_retention_minutes} * 60000000L)"
    moved = "(log_start - idle_log_start)"
    left = f"try_divide(CAST(nearest AS double) * CAST({_since('idle_lag_at')} AS double), CAST({moved} AS double))"
    passed = f"timestamp_micros(unix_micros(observed_at) + floor(least({left}, {_LONGEST_MICROS}D)))"
    loses = f"{in_idle_time} AND {moved} > 0 AND nearest >= 0 AND {left} <= {_LONGEST_MICROS}D"
    return {
        "lag_trend_since": f"CASE WHEN {in_idle_time} THEN idle_lag_at WHEN {in_life} THEN life_lag_at END",
        "lag_trend": f"CASE WHEN {in_idle_time} THEN {_a_day('idle_lag')} WHEN {in_life} THEN {_a_day('life_lag')} END",
        "offsets_expire_by": (
            f"IF(idle_since IS NOT NULL AND partitions > 0, {expires}, NULL)" if offsets_retention_minutes else "NULL"
        ),
        "data_loss_not_before": f"IF({loses}, {passed}, NULL)",
    }


def _since(column: str) -> str:
    return f"(unix_micros(observed_at) - unix_micros({column}))"


def _a_day(column: str) -> str:
    return f"try_divide(CAST(lag - {column} AS double) * {_DAY_MICROS}D, CAST({_since(f'{column}_at')} AS double))"
