"""Rules of a policy: which groups each is about, what it demands before one may be deleted, and which decides.

The first that matches a group decides. A condition can be undecided, because the type, the topics or the last client of
a group are not known. Such a rule *may* match, and then the strictest demands of it and of the first rule that
certainly matches hold: if either keeps the group, it is kept. Rules that keep match generously, as protecting patterns
do (see ``patterns``); rules that delete match exactly.

The patterns of all rules are compiled together, and one pass over an id finds those that match: a policy of 1,000 rules
takes little longer than one of 10.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from airflow_kafka_groups.checks import check_integer, check_number, check_seconds, check_share
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.judge.policy.families import TailShape, family_of
from airflow_kafka_groups.judge.policy.owners import OwnerRules
from airflow_kafka_groups.kafka.models import ELIGIBLE_TYPES, NAMED_TYPES, GroupType
from airflow_kafka_groups.observe.patterns import PatternSet, check_patterns

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
    :param types: types of groups. Share and streams groups are deleted only by a rule that names their type here.
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
            if name not in ELIGIBLE_TYPES | NAMED_TYPES:  # no other is ever deleted
                known = ", ".join(sorted(ELIGIBLE_TYPES | NAMED_TYPES))
                raise ConfigurationError("types", name, f"must be one of {known}")
        for name in self.families:
            if name not in list(TailShape) and not any(f"<{shape}>" in name for shape in TailShape):
                shapes = ", ".join(TailShape)
                remedy = f"must be one of {shapes}, or a name with one of them, such as 'app-<uuid>'"
                raise ConfigurationError("families", name, remedy)

    @property
    def is_empty(self) -> bool:
        """Whether it matches every group."""
        return self == Match()


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

    def why_kept(self, group_type: str) -> str | None:
        """Return why a group of this type is kept where this rule decides, ``None`` if it may be deleted."""
        if not self.deletes:
            return f"says {self.action.value}"
        if group_type in NAMED_TYPES and group_type not in self.match.types:
            return f"does not name the type {group_type!r}"
        return None

    @property
    def prunes(self) -> bool:
        """Whether abandoned topics of its groups may be pruned."""
        return self.action is RuleAction.PRUNE_TOPICS


class Ruling(NamedTuple):
    """What the policy says of a group.

    :param rule: the demands that hold. Its name is that of the rule in the file that decided.
    :param undecided: the names of rules that may match, too; empty in nearly all cases.
    """

    rule: Rule
    undecided: tuple[str, ...] = ()


_Condition = Callable[[RuleFacts], bool | None]


def facts_of(
    group_id: str,
    owners: OwnerRules,
    *,
    group_type: str = "classic",
    topics: frozenset[str] | None = None,
    client: str | None = None,
) -> RuleFacts:
    """Return what rules are matched against.

    :param group_type: its type. Default ``classic``.
    :param topics: the topics with committed offsets. Default: not known.
    :param client: the last client id. Default: not known.
    """
    (facts,) = facts_of_all([group_id], owners, [group_type], [topics], [client])
    return facts


def facts_of_all(
    group_ids: Sequence[str],
    owners: OwnerRules,
    group_types: Sequence[str],
    topics: Sequence[frozenset[str] | None],
    clients: Sequence[str | None],
) -> list[RuleFacts]:
    """Return the facts of groups, from columns of equal length; see ``facts_of``."""
    families = [family_of(group_id) or (None, None) for group_id in group_ids]
    rows = zip(group_ids, group_types, map(owners.owner_of, group_ids, clients), families, topics, clients, strict=True)
    return [
        RuleFacts(id_, kind, owner, name, shape, read, last) for id_, kind, owner, (name, shape), read, last in rows
    ]


class RuleMatcher:
    """Rules in order, compiled.

    :param rules: the rules; the last one must match every group.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        if not rules or not rules[-1].match.is_empty:
            raise ValueError("the last rule has to match every group")
        self._rules = tuple(rules)
        by_client = any(rule.match.clients for rule in rules)  # then owners are found by last client, too
        self._plain = list(map(Ruling, rules))
        self._ids = _RuleIds(rules)
        self._conditions = [_conditions(rule, by_client) for rule in rules]

    def rule_for(self, facts: RuleFacts) -> Ruling:
        """Return the ruling for one group."""
        undecided = list[int]()
        for place in self._ids.of(facts.group_id):
            outcome = _all(self._conditions[place], facts)
            if outcome:
                return self._strictest(place, undecided, facts.group_type) if undecided else self._plain[place]
            if outcome is None:
                undecided.append(place)
        raise AssertionError("the last rule matches every group")

    def rule_all(self, groups: Sequence[RuleFacts]) -> list[Ruling]:
        """Return the ruling for each group, in the same order."""
        return list(map(self.rule_for, groups))

    def _strictest(self, decided: int, undecided: Sequence[int], group_type: str) -> Ruling:
        certain, others = self._rules[decided], [self._rules[place] for place in undecided]
        names = tuple(rule.name for rule in others)
        if not certain.deletes:
            return Ruling(certain, names)
        keeping = [rule for rule in others if rule.why_kept(group_type) is not None]
        if keeping:
            return Ruling(keeping[0], names)
        every = [certain, *others]
        strictest = replace(
            certain,
            min_idle_seconds=max(rule.min_idle_seconds for rule in every),
            min_observations=max(rule.min_observations for rule in every),
            notice_seconds=max(rule.notice_seconds for rule in every),
            approval=any(rule.approval for rule in every),
        )
        return Ruling(strictest, names)


class RulesBefore:
    """The deleting rules that stand before the one that decided about a group, and that may match it, too.

    :param rules: the rules in order.
    :param topics_hidden: whether the topics of groups may not have been known.
    """

    def __init__(self, rules: Sequence[Rule], *, topics_hidden: bool) -> None:
        self._rules, self._topics_hidden = rules, topics_hidden
        self._place = {rule.name: number for number, rule in enumerate(rules)}
        self._by_client = any(rule.match.clients for rule in rules)  # then owners are found by last client, too
        self._ids = _RuleIds(rules)

    def of(self, group: RuleFacts) -> list[Rule]:
        """Return the rule that decided, and those before it; every deleting rule if the first is not known.

        :param group: its owner is that of the rule, or of the group.
        """
        place = self._place.get(group.rule or "")
        if place is None:
            return [rule for rule in self._rules if rule.deletes]
        decided = self._rules[place]
        before = (self._rules[number] for number in self._ids.of(group.group_id) if number < place)
        return [decided, *(rule for rule in before if rule.deletes and self._may(rule.match, group, decided))]

    def most(self, group: RuleFacts, demand: Callable[[Rule], float]) -> float:
        """Return the most that one of these rules demands of a group.

        :param demand: returns what a rule demands, such as its notice period.
        """
        return max(map(demand, self.of(group)), default=0.0)

    def _may(self, match: Match, group: RuleFacts, decided: Rule) -> bool:
        unknown_type = group.group_type == GroupType.UNKNOWN.value
        if match.types and not unknown_type and group.group_type not in match.types:
            return False
        of_rule = bool(decided.owner)  # then the group's own is not known here
        unknown_owner = self._by_client and (group.owner is None or of_rule)
        if match.owners and not unknown_owner and not of_rule and group.owner not in match.owners:
            return False
        is_open = (
            match.clients
            or (match.topics and self._topics_hidden)
            or (match.types and unknown_type)
            or (match.owners and unknown_owner)
        )
        return bool(is_open) and _of_family(group.group_id, match)


def demanding_approval(rules: Sequence[Rule], groups: Iterable[RuleFacts], *, topics_hidden: bool) -> list[str]:
    """Return the names of rules that demand an approval of planned groups, or that may: they may have matched, too.

    :param rules: the rules in order.
    :param topics_hidden: whether the topics of groups may not have been known.
    """
    before = RulesBefore(rules, topics_hidden=topics_hidden)
    wanted = {rule.name for rule in rules if rule.approval and rule.deletes}
    found = set[str]()
    for group in groups:
        if found == wanted:
            break
        found |= {rule.name for rule in before.of(group)} & wanted
    return [rule.name for rule in rules if rule.name in found]


def _all(conditions: Sequence[_Condition], facts: RuleFacts) -> bool | None:
    """Return whether all conditions hold; ``None`` if none fails, and some are undecided."""
    undecided = False
    for condition in conditions:
        outcome = condition(facts)
        if outcome is False:
            return False
        undecided = undecided or outcome is None
    return None if undecided else True


def matches_exactly(rule: Rule, group_id: str) -> bool:
    """Return whether an id matches the rule's patterns as exactly as where it deletes.

    :param rule: a rule that decided about the group. Rules that do not delete groups match generously.
    """
    return bool(_RuleIds([rule], exactly=True).of(group_id))


class _RuleIds:
    """The patterns of many rules over ids, compiled together: one pass over an id finds the rules that match it.

    :param exactly: whether they match as rules that delete do. Default: as each rule does.
    """

    def __init__(self, rules: Sequence[Rule], *, exactly: bool | None = None) -> None:
        patterns, keeping = list[str](), set[int]()
        self._meant = list[tuple[int, bool]]()
        for place, rule in enumerate(rules):
            deletes = rule.deletes if exactly is None else exactly
            for wanted, given in ((True, rule.match.groups), (False, rule.match.excepted)):
                if wanted != deletes:
                    keeping.update(range(len(patterns), len(patterns) + len(given)))
                patterns += given
                self._meant += [(place, wanted)] * len(given)
        self._without = frozenset(place for place, rule in enumerate(rules) if not rule.match.groups)
        self._patterns = PatternSet(patterns, keeping=keeping)

    def of(self, group_id: str) -> list[int]:
        """Return the places of the rules whose patterns match an id, in order; a rule without any matches each."""
        found: tuple[set[int], set[int]] = set(self._without), set()
        for number in self._patterns.matching(group_id):
            place, wanted = self._meant[number]
            found[not wanted].add(place)
        return sorted(found[0] - found[1])


def _conditions(rule: Rule, by_client: bool) -> list[_Condition]:
    """Return the conditions besides those of the id; the known facts come first."""
    match, found = rule.match, list[_Condition]()
    if match.types:
        unknown = GroupType.UNKNOWN.value
        found.append(lambda facts: None if facts.group_type == unknown else facts.group_type in match.types)
    if match.owners:
        found.append(
            lambda facts: (
                None if by_client and facts.owner is None and facts.client is None else facts.owner in match.owners
            )
        )
    if match.families:
        found.append(lambda facts: facts.shape in match.families or facts.family in match.families)
    if match.topics:
        of_topic = lru_cache(maxsize=1 << 16)(PatternSet(match.topics).match)  # many groups read the same topics
        found.append(lambda facts: None if facts.topics is None else any(map(of_topic, facts.topics)))
    if match.clients:
        # A client id may have any letters; a topic has none that patterns could match generously.
        of_client = PatternSet(match.clients, keeping=() if rule.deletes else range(len(match.clients))).match
        found.append(lambda facts: None if facts.client is None else of_client(facts.client))
    return found


def _of_family(group_id: str, match: Match) -> bool:
    if not match.families:
        return True
    found = family_of(group_id)
    return found is not None and bool({found.name, found.shape} & set(match.families))
