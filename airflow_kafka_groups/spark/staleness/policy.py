"""The staleness policy: how long a group must be idle, and how well observed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from airflow_kafka_groups.spark.errors import ArgumentError

_LONGEST_SECONDS = 100 * 366 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class StalenessPolicy:
    """How long a group must be idle, and how well observed, to be stale.

    :param min_idle_seconds: the required idle time in seconds, at least 0.001; exactly that long is enough.
    :param min_observations: the required number of observations within the idle time, at least 2.
    :param max_gap_seconds: the longest time between two consecutive observations; 0 for no limit.
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
        if not (math.isfinite(gap) and 0 <= gap <= _LONGEST_SECONDS):
            raise ArgumentError("--max-gap", gap, "give 0 (no limit) or a time below 100 years, such as 2d")

    @property
    def min_idle_micros(self) -> int:
        """The required idle time in microseconds, the unit in which times are compared."""
        return round(self.min_idle_seconds * 1_000_000)

    @property
    def max_gap_micros(self) -> int:
        """The longest allowed gap in microseconds; 0 for no limit."""
        return round(self.max_gap_seconds * 1_000_000)
