"""The policy of a plan: which groups, how long idle, how many at once, and how long the plan is usable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.maintenance.checks import check_integer, check_number, check_seconds
from airflow_kafka_groups.maintenance.patterns import ALWAYS_PROTECTED, DEFAULT_PROTECTED, EVERYTHING, GroupFilter

WEEK_SECONDS = 7 * 86_400.0
DAY_SECONDS = 86_400.0
YEAR_SECONDS = 366 * DAY_SECONDS
_LATER = frozenset({"max_gap_seconds", "require_commit_log"})
"""Settings that plans of older versions lack, whose digest must not change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPolicy:
    """The limits of a plan. Raises ``ConfigurationError`` for invalid values.

    :param min_idle_seconds: how long a group must have been empty and unmoved, in seconds. Default: a week.
    :param min_observations: number of complete snapshots that show it so. Minimum and default 2.
    :param include: patterns of the groups to consider, see ``patterns``. Default: all.
    :param exclude: patterns of groups to keep. Default: none.
    :param protected: patterns of platform groups to keep. Default: ``DEFAULT_PROTECTED``.
    :param max_groups: maximum number of groups per plan. Default 500.
    :param max_share: maximum share of all groups per plan, above 0 and at most 1. Default 0.5.
    :param max_plan_age_seconds: maximum age of the snapshot when the plan is applied, in seconds. Default: a day.
    :param allow_hidden_topics: plan even if this user may not describe all topics, so that groups may have offsets that
        are neither visible nor backed up. Default false.
    :param max_gap_seconds: the longest time between two snapshots that the job may have bridged, in seconds; 0 for no
        limit. Nothing is planned if it ran with a longer one. Default 0.
    :param require_commit_log: plan only if the job read the log of commits until after the snapshot. Default false.
    """

    min_idle_seconds: float = WEEK_SECONDS
    min_observations: int = 2
    include: tuple[str, ...] = EVERYTHING
    exclude: tuple[str, ...] = ()
    protected: tuple[str, ...] = DEFAULT_PROTECTED
    max_groups: int = 500
    max_share: float = 0.5
    max_plan_age_seconds: float = DAY_SECONDS
    allow_hidden_topics: bool = False
    max_gap_seconds: float = 0.0
    require_commit_log: bool = False

    def __post_init__(self) -> None:
        patterns = GroupFilter(self.include, self.exclude, self.protected)
        for name in ("include", "exclude", "protected"):
            object.__setattr__(self, name, getattr(patterns, name))
        for name in ("min_idle_seconds", "max_plan_age_seconds"):
            object.__setattr__(self, name, check_seconds(name, getattr(self, name)))
        if self.max_plan_age_seconds > YEAR_SECONDS:
            raise ConfigurationError(
                "max_plan_age_seconds", self.max_plan_age_seconds, "must be at most a year, 31622400"
            )
        share = check_number("max_share", self.max_share)
        if not 0 < share <= 1:
            raise ConfigurationError("max_share", self.max_share, "must be above 0 and at most 1, such as 0.5")
        object.__setattr__(self, "max_share", share)
        for name in ("allow_hidden_topics", "require_commit_log"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigurationError(name, getattr(self, name), "must be true or false")
        gap = check_number("max_gap_seconds", self.max_gap_seconds)
        if gap < 0:
            raise ConfigurationError("max_gap_seconds", gap, "must be 0 (no limit) or a number of seconds")
        object.__setattr__(self, "max_gap_seconds", gap)
        check_integer("max_groups", self.max_groups, 1, "must be an integer of at least 1")
        check_integer(
            "min_observations", self.min_observations, 2, "must be 2 or more: one observation proves no idle time"
        )

    @property
    def groups(self) -> GroupFilter:
        """The three lists of patterns as one filter, including the groups that are always protected."""
        return GroupFilter(self.include, self.exclude, (*ALWAYS_PROTECTED, *self.protected))

    def to_json(self) -> dict[str, Any]:
        """Return the policy as JSON values. Later settings are left out where they demand nothing."""
        later = {name: getattr(self, name) for name in _LATER if getattr(self, name)}
        return {
            **later,
            "include": list(self.include),
            "exclude": list(self.exclude),
            "protected": list(self.protected),
            "min_idle_seconds": self.min_idle_seconds,
            "min_observations": self.min_observations,
            "max_groups": self.max_groups,
            "max_share": self.max_share,
            "max_plan_age_seconds": self.max_plan_age_seconds,
            "allow_hidden_topics": self.allow_hidden_topics,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PlanPolicy:
        """Parse the result of ``to_json()``. Raises ``TypeError`` for an unknown or missing key."""
        if missing := set(cls.__slots__) - set(data) - _LATER:
            raise TypeError(f"the policy lacks {', '.join(sorted(missing))}")
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in data.items()
        }
        return cls(**values)
