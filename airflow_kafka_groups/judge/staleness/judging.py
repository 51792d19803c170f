"""The judgement of a group: a verdict with its reason and forecasts, from its life. No I/O.

The first rule of docs/formats.md that matches decides, so the order is essential for safety: only a group that no rule
keeps can be stale.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_kafka_groups.judge.staleness.lives import NEVER, Bools, Ints, LivesPart, Numbers, valid_of
from airflow_kafka_groups.judge.staleness.policy import StalenessPolicy
from airflow_kafka_groups.judge.verdict_names import VerdictName
from airflow_kafka_groups.kafka.models import EPOCH_TYPES, JUDGED_TYPES, GroupState, has_judged_kind
from airflow_kafka_groups.storage.arrow_values import column, in_one_piece, of_numpy
from airflow_kafka_groups.storage.schemas import VERDICT_COLUMNS, arrow_schema

Floats = npt.NDArray[np.float64]

SHORTEST_WINDOW_MICROS = 3_600_000_000
"""The shortest time for a trend: in less than an hour, a burst would look like a trend."""

_DAY_MICROS = 86_400_000_000
_LONGEST_MICROS = 100 * 366 * _DAY_MICROS


def _forecasts(lives: LivesPart, since: Ints, retention_minutes: int) -> dict[str, pa.Array]:
    """Return four columns of the verdicts by name, which decide nothing; times in microseconds since 1970.

    :param since: since when the groups are idle.
    """
    lag, log_start, nearest = (Numbers.of(lives.newest[name]) for name in ("lag", "log_start", "nearest"))
    partitions, unknown = (Numbers.of(lives.newest[name]).values for name in ("partitions", "lag_unknown"))
    has_ends = ~valid_of(lives.newest["error"]) & (partitions > 0) & (unknown == 0) & lag.known & log_start.known

    def elapsed(at: Ints) -> tuple[Floats, Bools]:
        """Return the times from earlier known log ends to the newest, and which are long enough for a trend."""
        known = has_ends & (at != NEVER)
        found = np.where(known, lives.observed_at - np.where(known, at, 0), 0)
        return np.maximum(found, 1).astype(np.float64), known & (found >= SHORTEST_WINDOW_MICROS)

    (in_idle, of_idle), (in_life, of_life) = elapsed(lives.idle_lag_at), elapsed(lives.life_lag_at)
    grown = lag.values - np.where(of_idle, lives.idle_lag, lives.life_lag)
    trend = grown.astype(np.float64) * _DAY_MICROS / np.where(of_idle, in_idle, in_life)
    moved = log_start.values - lives.idle_log_start
    # When the log's start passes the nearest offset at the pace of the idle time:
    passes = of_idle & nearest.known & (moved > 0) & (nearest.values >= 0)
    left = np.where(passes, nearest.values.astype(np.float64) * in_idle / np.where(passes, moved, 1), 0.0)
    retention = retention_minutes * 60_000_000 if 0 < retention_minutes * 60_000_000 <= _LONGEST_MICROS else 0
    expires = (since != NEVER) & (partitions > 0) & (retention > 0)
    has_trend, is_near = of_idle | of_life, passes & (left <= _LONGEST_MICROS)
    times = {
        "lag_trend_since": Numbers(np.where(of_idle, lives.idle_lag_at, lives.life_lag_at), has_trend),
        "offsets_expire_by": Numbers(np.where(expires, since + retention, 0), expires),
        "data_loss_not_before": Numbers(lives.observed_at + np.where(is_near, left, 0).astype(np.int64), is_near),
    }
    return {"lag_trend": of_numpy(trend, has_trend), **_stored(times)}


def _stored(columns: Mapping[str, Numbers]) -> dict[str, pa.Array]:
    return {name: values.stored(_SCHEMA.field(name).type) for name, values in columns.items()}


_UNITS = ((120, 1, "s"), (7_200, 60, "min"), (172_800, 3_600, "h"))
_SCHEMA = arrow_schema(VERDICT_COLUMNS)
_OBSERVED = ("group_type", "protocol_type", "state", "members", "error", "partitions")


def judge(lives: LivesPart, policy: StalenessPolicy, offsets_retention_minutes: int = 0) -> pa.Table:
    """Return the verdicts on groups, with the columns of ``VERDICT_COLUMNS``; forecasts decide nothing.

    :param offsets_retention_minutes: the brokers' ``offsets.retention.minutes``; without an expiry if it is 0 (unknown)
        or beyond 100 years (unlimited).
    """
    at, empty = lives.observed_at, lives.empty_since
    is_quiet = empty != NEVER
    since = np.where(is_quiet, np.maximum(np.maximum(empty, lives.last_moved_at), lives.last_record_at), NEVER)
    idle = Numbers(np.maximum(at - np.where(is_quiet, since, at), 0), is_quiet)
    came_last = np.where(lives.last_record_at > np.maximum(empty, 0), lives.last_record_at, NEVER)
    moved, came = (_ago(at, each) for each in (lives.last_moved_at, came_last))
    columns = [lives.newest[name].to_pylist() for name in _OBSERVED]
    numbers = (each.stored(pa.int64()).to_pylist() for each in (idle, moved, came))
    facts = map(_Judged, *columns, lives.observations.tolist(), *numbers)
    verdicts, reasons = zip(*[verdict_and_reason(each, policy) for each in facts], strict=True) if len(at) else ((), ())
    times = ("observed_at", "first_seen_at", "empty_since", "last_moved_at", "last_record_at")
    made = {name: Numbers(getattr(lives, name), getattr(lives, name) != NEVER) for name in times}
    made |= {"idle_since": Numbers(since, is_quiet), "observations": Numbers(lives.observations)}
    stored = {"verdict": column(verdicts, pa.string()), "reason": column(reasons, pa.string()), **_stored(made)}
    stored |= {"idle_seconds": of_numpy(idle.values / 1_000_000, is_quiet)}
    stored |= _forecasts(lives, since, offsets_retention_minutes)
    of_newest = (field for field in _SCHEMA if field.name not in stored)
    stored |= {field.name: in_one_piece(lives.newest[field.name]).cast(field.type) for field in of_newest}
    return pa.table([stored[name] for name in _SCHEMA.names], schema=_SCHEMA)


def _ago(at: Ints, then: Ints) -> Numbers:
    known = then != NEVER
    return Numbers(np.maximum(at - np.where(known, then, at), 0), known)


class _Judged(NamedTuple):
    """What a verdict goes by. Times are in microseconds.

    :param idle: for how long it has been idle; ``None`` for one that is not quiet.
    :param moved: how long ago it moved last, and ``came`` how long ago a member joined or left it in that time.
    """

    group_type: str
    protocol_type: str
    state: str
    members: int | None
    error: str | None
    partitions: int
    observations: int
    idle: int | None
    moved: int | None
    came: int | None


def verdict_and_reason(life: _Judged, policy: StalenessPolicy) -> tuple[VerdictName, str]:
    """Judge a group."""
    enough, idle, moved, came = round(policy.min_idle_seconds * 1_000_000), life.idle, life.moved, life.came
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
    if came is not None and came < enough:
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


class VerdictCounts:
    """The number of groups and their lag by verdict."""

    def __init__(self) -> None:
        self.groups, self.lag = (dict.fromkeys(map(str, VerdictName), 0) for _ in range(2))

    def add(self, verdict: str, groups: int, lag: int) -> None:
        """Count groups with a verdict, and their lag."""
        self.groups[verdict] += groups
        self.lag[verdict] += lag
