"""The verdict of one group by plain loops: slow, and written from docs/formats.md alone, to compare the job with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from airflow_kafka_groups.spark.staleness.policy import StalenessPolicy


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What one snapshot says of one group."""

    place: int
    at: datetime
    group_type: str
    protocol_type: str
    state: str
    members: int | None
    error: str | None
    offsets: dict[tuple[str, int], tuple[int, int, str]] = field(default_factory=dict)

    @property
    def is_quiet(self) -> bool:
        return self.error is None and self.state == "Empty" and not self.members


def judge_slowly(seen: Sequence[Observation], newest: int, policy: StalenessPolicy) -> dict[str, Any] | None:
    """Give the deciding columns of a group's verdict, ``None`` for one that the newest snapshot lacks."""
    if not seen or seen[-1].place != newest:
        return None
    life = _present_life(seen)
    last = life[-1]
    moved = _last_moved(life)
    run = _idle_run(life, policy) if last.is_quiet else []
    while run and moved and run[0].place < moved.place:
        run.pop(0)
    idle_since = None
    if last.is_quiet:
        idle_since = max([_idle_run(life, policy)[0].at] + ([moved.at] if moved else []))
    idle = None if idle_since is None else max((last.at - idle_since).total_seconds(), 0.0)
    return {
        "first_seen_at": life[0].at,
        "empty_since": _idle_run(life, policy)[0].at if last.is_quiet else None,
        "last_moved_at": moved.at if moved else None,
        "idle_since": idle_since,
        "idle_seconds": idle,
        "observations": len(run),
        "verdict": _verdict(last, moved, idle, len(run), policy),
    }


def _present_life(seen: Sequence[Observation]) -> list[Observation]:
    life = [seen[-1]]
    for earlier in reversed(seen[:-1]):
        if earlier.place != life[0].place - 1:
            break
        life.insert(0, earlier)
    return life


def _last_moved(life: Sequence[Observation]) -> Observation | None:
    moved, before = None, None
    for observation in life:
        if observation.error is not None:
            continue
        if before is not None and before.offsets != observation.offsets:
            moved = observation
        before = observation
    return moved


def _idle_run(life: Sequence[Observation], policy: StalenessPolicy) -> list[Observation]:
    run = [life[-1]]
    for earlier in reversed(life[:-1]):
        later = run[0]
        elapsed = (later.at - earlier.at).total_seconds()
        if not earlier.is_quiet or elapsed < 0 or (policy.max_gap_seconds and elapsed > policy.max_gap_seconds):
            break
        if (earlier.group_type, earlier.protocol_type) != (later.group_type, later.protocol_type):
            break
        run.insert(0, earlier)
    return run


def _verdict(
    last: Observation, moved: Observation | None, idle: float | None, count: int, policy: StalenessPolicy
) -> str:
    if last.error is not None:
        return "unreadable"
    if last.group_type in ("share", "streams") or last.protocol_type not in ("", "consumer"):
        return "untouchable"
    if idle is None:
        return "live"
    if not last.offsets:
        return "no_offsets"
    if moved and (last.at - moved.at).total_seconds() < policy.min_idle_seconds:
        return "moving"
    return "stale" if idle >= policy.min_idle_seconds and count >= policy.min_observations else "settling"
