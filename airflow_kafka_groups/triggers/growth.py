"""The growth of families as a watch sees it: groups that appear, by family and by the rule of a policy file."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from airflow_kafka_groups.judge.policy.families import family_of
from airflow_kafka_groups.judge.policy.growth import GROWTH_SECONDS, FastFamily, NewGroup, too_fast
from airflow_kafka_groups.judge.policy.matching import RuleMatcher, facts_of
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile


class _Appeared(NamedTuple):
    at: float
    group_id: str
    group_type: str


class FamilyGrowth:
    """The groups that appeared within a day.

    :param max_growth_per_day: how many new groups a day a family may get where there is no policy file.
    """

    def __init__(self, max_growth_per_day: float = 0.0) -> None:
        self._max_growth_per_day = max_growth_per_day
        self._known: set[str] | None = None
        self._appeared: deque[_Appeared] = deque()
        self._limits: dict[str, NewGroup | None] = {}
        self._digest: str | None = None

    def forget(self) -> None:
        """Begin again: the groups of the next complete listing are not new."""
        self._known = None
        self._appeared.clear()
        self._limits.clear()

    def see(self, listed: Mapping[str, str], now: float, *, complete: bool) -> None:
        """Take in a listing. The groups of the first complete one are not new.

        :param listed: the groups that exist, each with its type.
        :param now: the time in seconds.
        :param complete: whether every broker listed its groups. Without that, a group that is missing may exist.
        """
        if self._known is None:
            self._known = set(listed) if complete else None
            return
        self._appeared.extend(_Appeared(now, id_, kind) for id_, kind in listed.items() if id_ not in self._known)
        self._known = set(listed) if complete else self._known | set(listed)
        while self._appeared and self._appeared[0].at <= now - GROWTH_SECONDS:
            self._limits.pop(self._appeared.popleft().group_id, None)

    def too_fast(self, policy: PolicyFile | None) -> list[FastFamily]:
        """Return the families that grew faster within the last day than is allowed.

        :param policy: the policy file, as it is now; ``None`` for none.
        """
        return too_fast((limit for _, limit in self._limited(policy)), 1.0)

    def members(self, families: Iterable[str]) -> Iterator[str]:
        """Yield the groups of families that appeared, family by family, the newest first."""
        found: dict[str, list[str]] = {family: [] for family in families}
        for group_id, limit in self._limited_now():
            if limit.family in found:
                found[limit.family].append(group_id)
        for group_ids in found.values():
            yield from reversed(group_ids)

    def _limited(self, policy: PolicyFile | None) -> Iterator[tuple[str, NewGroup]]:
        digest = None if policy is None else policy.digest
        if digest != self._digest:
            self._limits, self._digest = {}, digest
        unknown = [each for each in self._appeared if each.group_id not in self._limits]
        if unknown:  # at few polls: the rules are not compiled for nothing, in the event loop
            self._limits |= dict(zip((each.group_id for each in unknown), self._decide(unknown, policy), strict=True))
        return self._limited_now()

    def _limited_now(self) -> Iterator[tuple[str, NewGroup]]:
        for each in self._appeared:
            if (limit := self._limits[each.group_id]) is not None:
                yield each.group_id, limit

    def _decide(self, groups: list[_Appeared], policy: PolicyFile | None) -> Iterator[NewGroup | None]:
        if policy is None:
            for each in groups:
                yield _limit(each.group_id, None, self._max_growth_per_day)
            return
        facts = [facts_of(each.group_id, policy.owners, group_type=each.group_type) for each in groups]
        for each, ruling in zip(groups, RuleMatcher(policy.rules).rule_all(facts), strict=True):
            yield _limit(each.group_id, ruling.rule.name, ruling.rule.max_growth_per_day)


def _limit(group_id: str, rule: str | None, allowed: float | None) -> NewGroup | None:
    family = family_of(group_id)
    return None if family is None or allowed is None else NewGroup(family.name, rule, allowed)
