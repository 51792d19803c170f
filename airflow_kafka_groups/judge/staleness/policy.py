"""The staleness policy: how long a group must be idle, and how well observed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from airflow_kafka_groups.exceptions import ArgumentError

_LONGEST_SECONDS = 100 * 366 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class StalenessPolicy:
    """How long a group must be idle, and how well observed, to be stale.

    :param min_idle_seconds: the required idle time in seconds, at least 0.001; exactly that long is enough.
    :param min_observations: the required number of observations within the idle time, at least 2.
    :param max_gap_seconds: the longest time between two consecutive observations, at least 0.001; 0 for no limit.
    """

    min_idle_seconds: float
    min_observations: int = 2
    max_gap_seconds: float = 0.0

    def __post_init__(self) -> None:
        idle, gap = self.min_idle_seconds, self.max_gap_seconds
        if not (math.isfinite(idle) and 0.001 <= idle <= _LONGEST_SECONDS):
            remedy = "give the idle time, such as 7d, or seconds: at least 0.001 and below 100 years"
            raise ArgumentError("--min-idle", idle, remedy)
        if self.min_observations < 2:
            remedy = "give 2 or more: one observation proves no idle time"
            raise ArgumentError("--min-observations", self.min_observations, remedy)
        # What rounds to no microsecond would be no limit, and a plan would take it for the strictest one.
        if not (math.isfinite(gap) and (gap == 0 or 0.001 <= gap <= _LONGEST_SECONDS)):
            remedy = "give 0 (no limit) or a time such as 2d: at least 0.001 and below 100 years"
            raise ArgumentError("--max-gap", gap, remedy)
