"""Rules of a policy: which groups each is about, and what it demands before one of them may be deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, NamedTuple

from airflow_kafka_groups.checks import check_integer, check_number, check_seconds, check_share
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.judge.policy.families import TailShape
from airflow_kafka_groups.kafka.models import ELIGIBLE_TYPES
from airflow_kafka_groups.observe.patterns import check_patterns

DEFAULT_RULE = "default"
"""The name of the rule that decides where no other matches."""


class RuleAction(StrEnum):
    """What happens to a group that a rule decides about. Only ``DELETE`` can plan it; all others keep it."""

    KEEP = "keep"
    REPORT = "report"
    DELETE = "delete"
    PRUNE_TOPICS = "prune-topics"
    KEEP_ALIVE = "keep-alive"


class RuleFacts(NamedTuple):
    """What rules are matched against.

    :param owner: the owner by mapping or name; ``None`` if there is none.
    :param family: the family's name, and ``shape`` that of the id's tail; ``None`` without a generated part.
    :param topics: the topics with committed offsets; ``None``: not known.
    :param client: the last client id; ``None``: not known.
    :param rule: the name of the rule that decided; ``None`` before one has. A plan has neither topics nor client.
    """

    group_id: str
    group_type: str
    owner: str | None = None
    family: str | None = None
    shape: str | None = None
    topics: frozenset[str] | None = None
    client: str | None = None
    rule: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The conditions of a rule. All that are given must hold; a list holds if one of its values does.

    :param groups: patterns of group ids; ``excepted``: patterns of those that it is not about.
    :param owners: names of owners.
    :param types: types of groups, of the eligible ones.
    :param families: shapes of tails, or names of families such as ``report-<uuid>``.
    :param topics: patterns of topics with committed offsets.
    :param clients: patterns of the last client id.

    Raises ``ConfigurationError`` for an invalid pattern.
    """

    groups: tuple[str, ...] = ()
    excepted: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("groups", "excepted", "topics", "clients"):
            check_patterns(name, getattr(self, name))
        for name in self.types:
            if name not in ELIGIBLE_TYPES:  # no other is ever deleted
                raise ConfigurationError("types", name, f"must be one of {', '.join(sorted(ELIGIBLE_TYPES))}")
        for name in self.families:
            if "<" not in name and name not in list(TailShape):
                shapes = ", ".join(TailShape)
                raise ConfigurationError("families", name, f"must be one of {shapes}, or a name such as 'app-<uuid>'")

    @property
    def is_empty(self) -> bool:
        """Whether it matches every group."""
        return self == Match()

    def to_json(self) -> dict[str, Any]:
        """Return the conditions that are given."""
        return {name: list(value) for name in self.__slots__ if (value := getattr(self, name))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. Raises ``ConfigurationError`` for invalid values.

    :param action: what happens to the groups that it decides about.
    :param match: which these are. Default: all.
    :param min_idle_seconds: how long a group must have been empty and unmoved, in seconds.
    :param min_observations: the number of complete snapshots that show it so, at least 2.
    :param notice_seconds: how long its owner must have been notified before it is deleted, in seconds. Default 0: no
        notice.
    :param max_groups: the most groups of one plan by this rule. Default: no limit of its own.
    :param max_share: their largest share of all groups. Default: no limit of its own.
    :param approval: whether a person has to approve a plan with a group of this rule. Default: as for any plan.
    :param owner: the owner of its groups. Default: by mapping or name.
    :param max_growth_per_day: how many new groups a day a family of its groups may get before it is reported; nothing
        is decided by it. Default: any number.
    """

    name: str
    action: RuleAction
    match: Match = field(default_factory=Match)
    min_idle_seconds: float
    min_observations: int
    notice_seconds: float = 0.0
    max_groups: int | None = None
    max_share: float | None = None
    approval: bool = False
    owner: str | None = None
    max_growth_per_day: float | None = None

    def __post_init__(self) -> None:
        check_seconds("min_idle_seconds", self.min_idle_seconds)
        check_integer("min_observations", self.min_observations, 2, "must be 2 or more: one observation proves nothing")
        if check_number("notice_seconds", self.notice_seconds) < 0:
            raise ConfigurationError("notice_seconds", self.notice_seconds, "must be 0 or a number of seconds")
        if self.max_groups is not None:
            check_integer("max_groups", self.max_groups, 0, "must be an integer of at least 0")
        if self.max_share is not None:
            check_share("max_share", self.max_share)
        growth = self.max_growth_per_day
        if growth is not None and check_number("max_growth_per_day", growth) < 0:
            raise ConfigurationError("max_growth_per_day", growth, "must be a number of groups of at least 0")

    @property
    def deletes(self) -> bool:
        """Whether its groups may be deleted."""
        return self.action is RuleAction.DELETE

    @property
    def prunes(self) -> bool:
        """Whether abandoned topics of its groups may be pruned."""
        return self.action is RuleAction.PRUNE_TOPICS

    def to_json(self) -> dict[str, Any]:
        """Return the rule as a plan's header has it."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {**values, "action": self.action.value, "match": self.match.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Rule:
        """Parse the result of ``to_json()``. Raises ``TypeError``, ``KeyError`` or ``ValueError`` for anything else."""
        match = Match(**{name: tuple(value) for name, value in data["match"].items()})
        if missing := {each.name for each in fields(cls)} - set(data):
            raise TypeError(f"a rule lacks {', '.join(sorted(missing))}")
        return cls(**{**data, "action": RuleAction(data["action"]), "match": match})
