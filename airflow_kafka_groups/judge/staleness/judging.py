"""The judgement of a group: a verdict with its reason and forecasts, from its life. No I/O.

The first rule of docs/formats.md that matches decides, so the order is essential for safety: groups that cannot be
read, belong to another program or are in use are recognized before anything is measured, and only a group that no rule
keeps can be stale. Forecasts, which decide nothing, are derived in docs/spark/judge-staleness.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from airflow_kafka_groups.judge.staleness.lives import Life
from airflow_kafka_groups.judge.staleness.policy import StalenessPolicy
from airflow_kafka_groups.judge.verdict_names import VerdictName
from airflow_kafka_groups.kafka.models import EPOCH_TYPES, JUDGED_TYPES, GroupState, has_judged_kind
from airflow_kafka_groups.storage.arrow_values import column
from airflow_kafka_groups.storage.schemas import VERDICT_COLUMNS, arrow_schema

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


_UNITS = ((120, 1, "s"), (7_200, 60, "min"), (172_800, 3_600, "h"))


def judge(life: Life, policy: StalenessPolicy, offsets_retention_minutes: int = 0) -> dict[str, Any]:
    """Return the verdict on a group as a row of ``VERDICT_COLUMNS``, with forecasts that decide nothing.

    Times are in microseconds since 1970.

    :param offsets_retention_minutes: the brokers' ``offsets.retention.minutes``. Default 0, unknown.
    """
    empty = life.empty_since
    since = None if empty is None else max(empty, life.last_moved_at or empty, life.last_record_at or empty)
    idle = None if since is None else max(life.observed_at - since, 0)
    verdict, reason = verdict_and_reason(life, idle, policy)
    return {
        **life._asdict(),
        "idle_since": since,
        "idle_seconds": None if idle is None else idle / 1_000_000,
        **forecasts(life, since, offsets_retention_minutes),
        "verdict": verdict,
        "reason": reason,
    }


def verdict_and_reason(life: Life, idle: int | None, policy: StalenessPolicy) -> tuple[VerdictName, str]:
    """Judge a group.

    :param idle: for how long it has been idle, in microseconds; ``None`` for one that is not quiet.
    """
    enough = round(policy.min_idle_seconds * 1_000_000)
    moved, came = (
        None if at is None else max(life.observed_at - at, 0) for at in (life.last_moved_at, life.last_record_at)
    )
    if life.error is not None:
        return VerdictName.UNREADABLE, f"not read in full: {life.error}"
    if not has_judged_kind(life.group_type, life.protocol_type):
        reason = f"protocol type {life.protocol_type}: another program keeps its own state in this group"
        if life.group_type not in JUDGED_TYPES:
            reason = f"a {life.group_type} group keeps state of its own"
        return VerdictName.UNTOUCHABLE, reason
    if life.members:
        return VerdictName.LIVE, f"it has {life.members} member(s), state {life.state}"
    if life.state != GroupState.EMPTY:
        return VerdictName.LIVE, f"its state is {life.state}, not Empty"
    if life.partitions == 0:
        return (
            VerdictName.NO_OFFSETS,
            "no committed offset is visible: a broker removes such a group by itself, so some may be hidden",
        )
    if moved is not None and moved < enough:
        what = "offsets or group epoch" if life.group_type in EPOCH_TYPES else "offsets"
        return (
            VerdictName.MOVING,
            f"{what} moved {duration(moved)} ago; the policy requires {duration(enough)} without",
        )
    if came is not None and came < enough and (life.last_record_at or 0) > (life.empty_since or 0):
        return (
            VerdictName.MOVING,
            f"a member joined or left it {duration(came)} ago, by the log of commits; the policy requires "
            f"{duration(enough)} without",
        )
    for_how_long = "unknown" if idle is None else duration(idle)
    reason = (
        f"idle for {for_how_long} ({life.observations} snapshots); the policy requires {duration(enough)} and "
        f"{policy.min_observations} snapshots"
    )
    if idle is not None and idle >= enough and life.observations >= policy.min_observations:
        return VerdictName.STALE, reason
    return VerdictName.SETTLING, reason


def duration(micros: int) -> str:
    """Format a time, rounded down, so that it is never exaggerated."""
    unit, name = next(((unit, name) for below, unit, name in _UNITS if micros < below * 1_000_000), (86_400, "days"))
    return f"{micros // (unit * 100_000) / 10:.1f} {name}"


_SCHEMA = arrow_schema(VERDICT_COLUMNS)


def verdict_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return what ``judge`` returned as a table."""
    return pa.table([_column(rows, field) for field in _SCHEMA], schema=_SCHEMA)


class VerdictCounts:
    """The number of groups and their lag by verdict."""

    def __init__(self) -> None:
        self.groups, self.lag = (dict.fromkeys(map(str, VerdictName), 0) for _ in range(2))

    def add(self, verdict: str, groups: int, lag: int) -> None:
        """Count groups with a verdict, and their lag."""
        self.groups[verdict] += groups
        self.lag[verdict] += lag


def _column(rows: Sequence[Mapping[str, Any]], field: pa.Field) -> pa.Array:
    """Return a column of verdicts, whose times are microseconds."""
    stored = pa.int64() if pa.types.is_timestamp(field.type) else field.type
    return column([row.get(field.name) for row in rows], stored).cast(field.type)
