"""The verdict of one group by plain loops: slow, and written from docs/formats.md alone, to compare the job with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from airflow_kafka_groups.judge.staleness.policy import StalenessPolicy
from tests.histories.shorthand import SnapshotRow, seen


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What one snapshot says of one group. The place of an incomplete one is that of the complete one after it."""

    place: int
    at: datetime
    group_type: str
    protocol_type: str
    state: str
    members: int | None
    error: str | None
    offsets: dict[tuple[str, int], tuple[int, int, str]] = field(default_factory=dict)
    ends: dict[tuple[str, int], tuple[int | None, int | None]] = field(default_factory=dict)
    complete: bool = True

    @property
    def unknown(self) -> int:
        return len(self.offsets) - len(self._lags)

    @property
    def is_measured(self) -> bool:
        return self.error is None and bool(self.offsets) and not self.unknown

    @property
    def lag(self) -> int | None:
        return sum(lag for lag, _ in self._lags) if self._lags else None

    @property
    def lost(self) -> int | None:
        return sum(lost for _, lost in self._lags) if self._lags else None

    @property
    def _lags(self) -> list[tuple[int, int]]:
        """Return lag and what is lost of each partition where they are known."""
        found = [(self.offsets[at][0], start, end) for at, (start, end) in self._ends()]
        return [
            (end - min(max(offset, start), end), min(max(offset, start), end) - offset)
            for offset, start, end in found
            if start is not None and end is not None and offset <= end
        ]

    @property
    def log_start(self) -> int:
        return sum(start for _, (start, _) in self._ends() if start is not None)

    @property
    def nearest(self) -> int:
        return min(self.offsets[at][0] - start for at, (start, _) in self._ends() if start is not None)

    def _ends(self) -> list[tuple[tuple[str, int], tuple[int | None, int | None]]]:
        return [(at, self.ends[at]) for at in self.offsets]

    @property
    def is_quiet(self) -> bool:
        return self.error is None and self.state == "Empty" and not self.members

    def is_alive_after(self, before: Observation | None) -> bool:
        """Return whether an incomplete snapshot shows life, by itself or beside the complete one before it."""
        if self.members or self.state not in ("Empty", "Unknown"):
            return True
        if self.error is not None:
            return False
        if self.state != "Empty":
            return True
        if before is None:
            return False
        if (self.group_type, self.protocol_type) != (before.group_type, before.protocol_type):
            return True
        return before.error is None and self.offsets != before.offsets


def rows_of(group: str, observation: Observation) -> list[SnapshotRow]:
    """Return the rows of an observation; an incomplete snapshot is half an hour before the complete one after it."""
    return seen(
        observation.place if observation.complete else observation.place - 0.5,
        group=group,
        at=observation.at,
        offsets=dict(observation.offsets),
        ends=observation.ends,
        group_type=observation.group_type,
        protocol_type=observation.protocol_type,
        state=observation.state,
        members=observation.members,
        error=observation.error,
    )


def judge_slowly(
    seen: Sequence[Observation], newest: int, policy: StalenessPolicy, retention_minutes: int = 0
) -> dict[str, Any] | None:
    """Return the deciding columns of a group's verdict, ``None`` for one that the newest snapshot lacks."""
    partly = [each for each in seen if not each.complete]
    seen = [each for each in seen if each.complete]
    if not seen or seen[-1].place != newest:
        return None
    life = _present_life(seen)
    last = life[-1]
    moved = _last_moved(life)
    signs = _signs(life, partly)
    idle_run = _idle_run(life, policy, signs) if last.is_quiet else []
    run = list(idle_run)
    while run and moved and run[0].place < moved.place:
        run.pop(0)
    idle_since = None
    if last.is_quiet:
        idle_since = max([idle_run[0].at] + ([moved.at] if moved else []))
    idle = None if idle_since is None else max((last.at - idle_since).total_seconds(), 0.0)
    return {
        "first_seen_at": life[0].at,
        "empty_since": idle_run[0].at if last.is_quiet else None,
        "last_moved_at": moved.at if moved else None,
        "idle_since": idle_since,
        "idle_seconds": idle,
        "observations": len(run),
        "verdict": _verdict(last, moved, idle, len(run), policy),
        "lag": last.lag,
        "lag_unknown": last.unknown,
        "lost": last.lost,
        "offsets_expire_by": (
            idle_since + timedelta(minutes=retention_minutes)
            if idle_since is not None and last.offsets and retention_minutes
            else None
        ),
        **_forecast(life, run),
    }


def _forecast(life: Sequence[Observation], run: Sequence[Observation]) -> dict[str, Any]:
    last = life[-1]
    found: dict[str, Any] = {"lag_trend": None, "lag_trend_since": None, "data_loss_not_before": None}
    if not last.is_measured:
        return found
    for window in (run, life):
        first = next((each for each in window if each.is_measured), None)
        if first is None or last.at - first.at < timedelta(hours=1):
            continue
        assert first.lag is not None
        assert last.lag is not None
        days = (last.at - first.at) / timedelta(days=1)
        found |= {"lag_trend": (last.lag - first.lag) / days, "lag_trend_since": first.at}
        moved = last.log_start - first.log_start
        if window is run and moved > 0 and last.nearest >= 0:
            left = last.nearest * ((last.at - first.at) // timedelta(microseconds=1)) // moved
            found["data_loss_not_before"] = last.at + timedelta(microseconds=left)
        break
    return found


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


def _signs(life: Sequence[Observation], partly: Sequence[Observation]) -> list[Observation]:
    by_place = {each.place: each for each in life}
    return [
        each for each in partly if each.place >= life[0].place and each.is_alive_after(by_place.get(each.place - 1))
    ]


def _idle_run(life: Sequence[Observation], policy: StalenessPolicy, signs: Sequence[Observation]) -> list[Observation]:
    run = [life[-1]]
    for earlier in reversed(life[:-1]):
        later = run[0]
        elapsed = (later.at - earlier.at).total_seconds()
        if not earlier.is_quiet or elapsed < 0 or (policy.max_gap_seconds and elapsed > policy.max_gap_seconds):
            break
        if (earlier.group_type, earlier.protocol_type) != (later.group_type, later.protocol_type):
            break
        if any(sign.place == later.place for sign in signs):
            break
        if any(sign.place < later.place and sign.at >= earlier.at for sign in signs):
            break
        run.insert(0, earlier)
    return run


def _verdict(
    last: Observation, moved: Observation | None, idle: float | None, count: int, policy: StalenessPolicy
) -> str:
    if last.error is not None:
        return "unreadable"
    if last.protocol_type not in ((last.group_type,) if last.group_type in ("share", "streams") else ("", "consumer")):
        return "untouchable"
    if idle is None:
        return "live"
    if not last.offsets:
        return "no_offsets"
    if moved and (last.at - moved.at).total_seconds() < policy.min_idle_seconds:
        return "moving"
    return "stale" if idle >= policy.min_idle_seconds and count >= policy.min_observations else "settling"
