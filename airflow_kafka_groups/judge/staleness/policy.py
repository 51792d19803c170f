"""The staleness policy: how long a group must be idle, and how well observed; and its command line."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass

from airflow_kafka_groups.durations import read_duration
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


def add_policy(parser: argparse.ArgumentParser) -> None:
    """Add the options of a policy."""
    add = parser.add_argument
    add(
        *("--min-idle", "--min-idle-seconds"),
        dest="min_idle_seconds",
        metavar="TIME",
        required=True,
        type=duration("seconds"),
        help="idle time a stale group must have, such as 7d, or seconds (inclusive)",
    )
    add("--min-observations", type=count, default=2, help="observations within the idle time (default 2)")
    add(
        *("--max-gap", "--max-gap-seconds"),
        dest="max_gap_seconds",
        metavar="TIME",
        type=duration("seconds"),
        default=0.0,
        help="a longer gap restarts the idle time (default 0: no limit)",
    )


def policy_of(arguments: argparse.Namespace) -> StalenessPolicy:
    """Return the policy of a command line. Raises ``ArgumentError``."""
    return StalenessPolicy(
        min_idle_seconds=arguments.min_idle_seconds,
        min_observations=arguments.min_observations,
        max_gap_seconds=arguments.max_gap_seconds,
    )


def duration(unit: str) -> Callable[[str], float]:
    """Return a reader of durations for argparse, in a unit."""

    def read(text: str) -> float:
        try:
            return read_duration(text, unit)
        except ValueError as exc:
            raise argparse.ArgumentTypeError(str(exc)) from None

    return read


def count(text: str) -> int:
    """Parse a whole number for argparse."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number: give e.g. 2") from None
