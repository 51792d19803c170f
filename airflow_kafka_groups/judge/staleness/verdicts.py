"""The verdict on each group, with a reason: the table of docs/formats.md as code.

The first matching rule decides, so the order is essential for safety: groups that cannot be read, belong to another
program or are in use are recognized before anything is measured, and only a group that no rule keeps can be stale.
"""

from __future__ import annotations

from typing import Any

from airflow_kafka_groups.judge.staleness.forecasts import forecasts
from airflow_kafka_groups.judge.staleness.lives import Life
from airflow_kafka_groups.judge.staleness.policy import StalenessPolicy
from airflow_kafka_groups.judge.verdict_names import VerdictName
from airflow_kafka_groups.kafka.models.group_states import GroupState
from airflow_kafka_groups.kafka.models.group_types import ELIGIBLE_PROTOCOL_TYPES, JUDGED_TYPES

_UNITS = ((120, 1, "s"), (7_200, 60, "min"), (172_800, 3_600, "h"))


def judge(life: Life, policy: StalenessPolicy, offsets_retention_minutes: int = 0) -> dict[str, Any]:
    """Return the verdict on a group as a row of ``VERDICT_COLUMNS``, with forecasts that decide nothing.

    Times are in microseconds since 1970.

    :param offsets_retention_minutes: the brokers' ``offsets.retention.minutes``. Default 0, unknown.
    """
    since = None if life.empty_since is None else max(life.empty_since, life.last_moved_at or life.empty_since)
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
    moved = None if life.last_moved_at is None else life.observed_at - life.last_moved_at
    if life.error is not None:
        return VerdictName.UNREADABLE, f"not read in full: {life.error}"
    if life.group_type not in JUDGED_TYPES:
        return VerdictName.UNTOUCHABLE, f"a {life.group_type} group keeps state of its own"
    if life.protocol_type not in ELIGIBLE_PROTOCOL_TYPES:
        reason = f"protocol type {life.protocol_type}: another program keeps its own state in this group"
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
        return (
            VerdictName.MOVING,
            f"offsets moved {duration(moved)} ago; the policy requires {duration(enough)} without",
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
