"""The policy of a plan: which groups, how long idle, how many at once, and how long the plan is usable.

It is made of arguments, or of arguments and a policy file. Either way a rule decides about each group: arguments alone
are the policy with one rule, which matches every group and deletes it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from fractions import Fraction

from airflow_kafka_groups.checks import check_integer, check_number, check_seconds, check_share, is_digest
from airflow_kafka_groups.durations import LONGEST, LONGEST_SECONDS
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.judge.policy.notice import check_notify
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
from airflow_kafka_groups.judge.policy.rules import Rule, RuleAction, RulesBefore
from airflow_kafka_groups.observe.patterns import (
    ALWAYS_PROTECTED,
    DEFAULT_PROTECTED,
    EVERYTHING,
    GroupFilter,
    with_a_name,
)

DAY_SECONDS = 86_400.0
WEEK_SECONDS = 7 * DAY_SECONDS
PLANNED_WITHIN = timedelta(days=31)
"""The longest time after a snapshot for which a plan by it lasts: prunings keep what shows its groups in use since."""
ARGUMENTS_RULE = "arguments"
"""The name of the one rule of a policy without a file."""


@dataclass(frozen=True, slots=True)
class PolicySource:
    """The policy file that a plan was made by.

    :param path: where it is read again before a deletion.
    """

    path: str
    sha256: str

    def __post_init__(self) -> None:
        if not self.path or not is_digest(self.sha256):
            raise ConfigurationError("file", self.path, "must be a path and a digest")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPolicy:
    """The limits of a plan. Raises ``ConfigurationError`` for invalid values.

    :param min_idle_seconds: how long a group must have been empty and unmoved, in seconds. Default: a week.
    :param min_observations: number of complete snapshots that show it so. Minimum and default 2.
    :param include: patterns of the groups to consider, see ``patterns``. Default: all that have a name.
    :param exclude: patterns of groups to keep. Default: none.
    :param protected: patterns of groups to keep; replaces the built-in list, including ``connect-*``: use ``exclude``
        to add patterns. Default: ``DEFAULT_PROTECTED``.
    :param max_groups: maximum number of groups per plan. Default 500.
    :param max_share: maximum share of all groups per plan, above 0 and at most 1. Default 0.5.
    :param max_plan_age_seconds: maximum age of the snapshot when the plan is applied, in seconds. Default: a day.
    :param allow_hidden_topics: plan even if this user may not describe all topics, so that groups may have offsets that
        are neither visible nor backed up. Default false.
    :param max_gap_seconds: the longest time between two snapshots that the job may have bridged, in seconds; 0 for no
        limit. Nothing is planned if it ran with a longer one. Default 0.
    :param require_commit_log: plan only if the job read the log of commits until after the snapshot. Default false.
    :param file: the policy file. Default: none.
    :param rules: its rules; the last one matches every group. Default: none, so that ``min_idle_seconds`` and
        ``min_observations`` count for every group.
    :param contacts: where to notify owners, by owner; ``""`` for all others.
    :param notify: the Airflow connection by which owners are notified, by the kind of the notifier: ``smtp``, ``slack``
        or ``slack_webhook``. Default: none.
    :param refuse_share: the share of all groups above which nothing is planned at all. Default: none.
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
    file: PolicySource | None = None
    rules: tuple[Rule, ...] = ()
    contacts: Mapping[str, str] = field(default_factory=dict)
    notify: Mapping[str, str] = field(default_factory=dict)
    refuse_share: float | None = None

    def __post_init__(self) -> None:
        patterns = GroupFilter(self.include, self.exclude, self.protected)
        for name in ("include", "exclude", "protected"):
            object.__setattr__(self, name, getattr(patterns, name))
        for name in ("min_idle_seconds", "max_plan_age_seconds"):
            object.__setattr__(self, name, check_seconds(name, getattr(self, name)))
        if self.max_plan_age_seconds > PLANNED_WITHIN.total_seconds():
            remedy = f"must be at most {PLANNED_WITHIN.days} days, {PLANNED_WITHIN.total_seconds():.0f}"
            raise ConfigurationError("max_plan_age_seconds", self.max_plan_age_seconds, remedy)
        object.__setattr__(self, "max_share", check_share("max_share", self.max_share))
        if self.refuse_share is not None:
            check_share("refuse_share", self.refuse_share)
        for name in ("allow_hidden_topics", "require_commit_log"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigurationError(name, getattr(self, name), "must be true or false")
        check_notify("notify", self.notify)
        gap = check_number("max_gap_seconds", self.max_gap_seconds)
        if not 0 <= gap <= LONGEST_SECONDS:
            remedy = f"must be 0 (no limit) or a number of seconds, {LONGEST}"
            raise ConfigurationError("max_gap_seconds", gap, remedy)
        object.__setattr__(self, "max_gap_seconds", gap)
        check_integer("max_groups", self.max_groups, 1, "must be an integer of at least 1")
        check_integer(
            "min_observations", self.min_observations, 2, "must be 2 or more: one observation proves no idle time"
        )

    def rules_before(self) -> RulesBefore:
        """Return what tells which rules may match a planned group besides the one that decided."""
        return RulesBefore(self.every_rule, topics_hidden=self.allow_hidden_topics)

    @property
    def every_rule(self) -> tuple[Rule, ...]:
        """The rules in order. Without a file it is one, which deletes what the limits allow."""
        if self.rules:
            return self.rules
        alone = Rule(
            name=ARGUMENTS_RULE,
            action=RuleAction.DELETE,
            min_idle_seconds=self.min_idle_seconds,
            min_observations=self.min_observations,
        )
        return (alone,)

    @property
    def longest_idle_seconds(self) -> float:
        """The longest idle time that a rule demands before it deletes."""
        return max((rule.min_idle_seconds for rule in self.every_rule if rule.deletes), default=self.min_idle_seconds)

    @property
    def shortest_idle_seconds(self) -> float:
        """The shortest idle time that a rule demands before it deletes."""
        return min((rule.min_idle_seconds for rule in self.every_rule if rule.deletes), default=self.min_idle_seconds)

    def by_file(self, file: PolicyFile) -> PlanPolicy:
        """Return this policy with the rules of a file. Of each limit, the stricter one counts.

        :param file: the policy file. Its rules replace ``min_idle_seconds`` and ``min_observations``.
        """
        limits, deleting = file.limits, [rule for rule in file.rules if rule.deletes] or file.rules
        gaps = [gap for gap in (self.max_gap_seconds, limits.get("max_gap_seconds", 0.0)) if gap]
        refused = [share for share in (self.refuse_share, limits.get("refuse_share")) if share is not None]
        return replace(
            self,
            min_idle_seconds=min(rule.min_idle_seconds for rule in deleting),
            min_observations=min(rule.min_observations for rule in deleting),
            protected=(*self.protected, *file.protected),
            max_groups=min(self.max_groups, limits.get("max_groups", self.max_groups)),
            max_share=min(self.max_share, limits.get("max_share", self.max_share)),
            max_plan_age_seconds=min(
                self.max_plan_age_seconds, limits.get("max_plan_age_seconds", self.max_plan_age_seconds)
            ),
            max_gap_seconds=min(gaps, default=0.0),
            refuse_share=min(refused, default=None),
            require_commit_log=self.require_commit_log or limits.get("require_commit_log", False),
            file=PolicySource(file.path, file.digest),
            rules=file.rules,
            contacts={**file.owners.contacts, **({"": contact} if (contact := file.owners.default_contact) else {})},
            notify=file.notify or self.notify,
        )

    def contact_of(self, owner: str | None) -> str | None:
        """Return where to notify an owner, ``None`` if that is not known.

        :param owner: the owner; ``None`` for groups without one.
        """
        return self.contacts.get(owner or "", self.contacts.get(""))

    @property
    def groups(self) -> GroupFilter:
        """The three lists of patterns as one filter, including the groups that are always protected."""
        return GroupFilter(with_a_name(self.include), self.exclude, (*ALWAYS_PROTECTED, *self.protected))


def share_of(groups: int, share: float) -> int:
    """Return how many groups a share of them is, rounded down: 29 are 0.29 of 100, for which floats have a little less.

    The share counts as it is written: 0.9999999999 of 3 groups are two.
    """
    return math.floor(groups * Fraction(repr(float(share))))
