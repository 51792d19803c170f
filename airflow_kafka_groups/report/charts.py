"""The charts of the reports: how long groups are idle, what is ahead of them, how a cluster changes, what was taken."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from heapq import nsmallest
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from airflow_kafka_groups.judge.verdict_names import VerdictName
from airflow_kafka_groups.report.page import SHOWN
from airflow_kafka_groups.report.svg import Series, bars, columns
from airflow_kafka_groups.report.trend_points import TrendPoint

_HOUR, _DAY = 3_600.0, 86_400.0
_A_YEAR = timedelta(days=364)
"""Beyond it, a day of the year may come twice."""
_STEPS = {"1 h": _HOUR, "6 h": 6 * _HOUR, "1 d": _DAY, "3 d": 3 * _DAY, "7 d": 7 * _DAY}
_STEPS |= {"14 d": 14 * _DAY, "30 d": 30 * _DAY, "90 d": 90 * _DAY}
_AGES = (*(f"<{label}" for label in _STEPS), "≥90 d")
_AHEAD = ("past", *list(_STEPS)[2:-1], "later")
_AGE_LIMITS = [*_STEPS.values()]
_AHEAD_LIMITS = [0.0, *_AGE_LIMITS[2:-1]]
_MOST_BARS = 8
_LAG_DAYS = 7.0
SHOWN_RUNS = 30
"""The number of runs in a chart of the report; the trend page has more."""

VERDICT_KINDS: Mapping[str, tuple[str, str]] = {
    VerdictName.LIVE: ("live", "c-live"),
    VerdictName.MOVING: ("moving", "c-moving"),
    VerdictName.SETTLING: ("settling", "c-settling"),
    VerdictName.STALE: ("stale", "c-stale"),
    VerdictName.NO_OFFSETS: ("no offsets", "c-other"),
    VerdictName.UNTOUCHABLE: ("untouchable", "c-other2"),
    VerdictName.UNREADABLE: ("unreadable", "c-bad"),
}
"""The name and the colour of each verdict."""


def idle_ages(idle: Iterable[tuple[float | None, bool]]) -> Markup:
    """Return the histogram of idle times.

    :param idle: the idle time of each group in seconds, and whether it is planned; groups in use have none.
    """
    planned: Counter[int] = Counter()
    kept: Counter[int] = Counter()
    for seconds, is_planned in idle:
        if seconds is not None:
            (planned if is_planned else kept)[bisect_right(_AGE_LIMITS, seconds)] += 1
    labels = list(_AGES)
    return columns(
        "Idle for",
        labels,
        [
            Series("kept", "c-settling", [kept[place] for place in range(len(labels))]),
            Series("planned", "c-stale", [planned[place] for place in range(len(labels))]),
        ],
    )


def expiry_ahead(expires: Iterable[float | None], now: datetime) -> Markup:
    """Return how many groups the brokers will have forgotten by when, if they stay idle.

    :param expires: the time of each group in seconds since 1970, ``None`` where it is not known.
    :param now: the time to count from.
    """
    from_now = now.timestamp()
    found = Counter(bisect_right(_AHEAD_LIMITS, at - from_now) for at in expires if at is not None)
    labels = list(_AHEAD)
    values = [found[place] for place in range(len(labels))]
    return columns("Brokers forget them within", labels, [Series("groups", "c-moving", values)])


def lag_ahead(groups: Iterable[tuple[str, int | None, float | None]]) -> Markup:
    """Return the groups with the largest lag in a week, at the pace of today.

    :param groups: the id, the lag, and its growth a day, ``None`` where they are not known.
    """
    grown = (
        (group_id, lag, max((trend or 0.0) * _LAG_DAYS, -lag)) for group_id, lag, trend in groups if lag is not None
    )
    ranked = nsmallest(_MOST_BARS, ((-(lag + growth), group_id, lag, growth) for group_id, lag, growth in grown))
    largest = [(group_id, lag, growth) for total, group_id, lag, growth in ranked if total < 0]
    now = [float(min(lag, lag + growth)) for _, lag, growth in largest]
    more = [float(round(max(growth, 0))) for *_, growth in largest]
    return bars(
        "Largest lag in a week",
        [group_id or "(empty id)" for group_id, *_ in largest],
        [Series("today's", "c-moving", now), Series("growth in 7 days", "c-stale", more)],
        what="records",
    )


def family_growth(families: Sequence[Mapping[str, Any]]) -> Markup:
    """Return the families that grow fastest."""
    growing = [family for family in families if (family["growth_per_day"] or 0) > 0]
    growing = sorted(growing, key=lambda family: (-family["growth_per_day"], family["name"]))[:_MOST_BARS]
    values = [float(family["growth_per_day"]) for family in growing]
    names = [str(family["name"]) for family in growing]
    return bars("New groups a day, by family", names, [Series("a day", "c-live", values)], what="groups a day")


def offsets_taken(offsets: Mapping[str, int]) -> Markup:
    """Return how many offsets were processed, for the partitions with the most.

    :param offsets: the number for each partition, by its name.
    """
    largest = sorted(offsets, key=lambda name: (-offsets[name], name))[:SHOWN]
    series = Series("offsets", "c-live", [offsets[name] for name in largest])
    return bars("Largest partitions", largest, [series], what="offsets processed")


def verdicts_over_time(points: Sequence[TrendPoint], most: int = SHOWN_RUNS) -> Markup:
    """Return the number of groups of the newest runs, by verdict.

    :param points: the runs, oldest first.
    """
    shown = points[-most:]
    series = [
        Series(name, kind, [point.counts.get(verdict, 0) for point in shown])
        for verdict, (name, kind) in VERDICT_KINDS.items()
    ]
    return columns("Groups over time, by verdict", run_labels(shown), series, over_time=True)


def run_labels(points: Sequence[TrendPoint]) -> list[str]:
    """Return the labels of runs, see ``time_labels``."""
    return time_labels([point.created_at for point in points])


def time_labels(at: Sequence[datetime]) -> list[str]:
    """Return the labels of times: the day, with its year where one may come twice, or the time of further ones on it.

    :param at: the times, oldest first.
    """
    longer = bool(at) and at[-1] - at[0] > _A_YEAR
    days = [f"{each:{'%b %-d %Y' if longer else '%b %-d'}}" for each in at]
    times = [f"{each:%H:%M}" for each in at]
    before = [None, *(day for day, _ in pairwise([*days, ""]))]
    return [time if day == last else day for day, time, last in zip(days, times, before, strict=False)]
