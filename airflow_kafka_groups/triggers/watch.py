"""The groups of a cluster that are empty, stale or lagging now, and families that grow, found by one batched poll.

A group that cannot be read neither matches nor does not match: ``known`` contains only groups the broker told about.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from airflow_kafka_groups.judge.policy.families import GROWTH_SECONDS, FastFamily, NewGroup, family_of, too_fast
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
from airflow_kafka_groups.judge.policy.rules import RuleMatcher, facts_of
from airflow_kafka_groups.kafka.models import GroupState
from airflow_kafka_groups.observe.fingerprint import committed_partitions
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.triggers.conditions import Watching

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka import AdminClient
    from airflow_kafka_groups.kafka.admin.results import GroupListings


class _Appeared(NamedTuple):
    at: float
    group_id: str
    group_type: str


class FamilyGrowth:
    """The groups that appeared within a day, and how many a family may get where there is no policy file."""

    def __init__(self, max_growth_per_day: float = 0.0) -> None:
        self._max_growth_per_day = max_growth_per_day
        self._known: set[str] | None = None
        self._appeared: deque[_Appeared] = deque()

    def see(self, listed: Mapping[str, str], now: float, *, complete: bool) -> None:
        """Take in a listing of groups with their types. The groups of the first complete one are not new."""
        if self._known is None:
            self._known = set(listed) if complete else None
            return
        self._appeared.extend(_Appeared(now, id_, kind) for id_, kind in listed.items() if id_ not in self._known)
        self._known = set(listed) if complete else self._known | set(listed)
        while self._appeared and self._appeared[0].at <= now - GROWTH_SECONDS:
            self._appeared.popleft()

    def too_fast(self, policy: PolicyFile | None) -> list[FastFamily]:
        """Return the families that grew faster within the last day than is allowed."""
        return too_fast(filter(None, self._limits(policy)), 1.0)

    def members(self, families: Iterable[str]) -> Iterator[str]:
        """Return the groups of families that appeared, family by family, the newest first."""
        found: dict[str, list[str]] = {family: [] for family in families}
        for each in reversed(self._appeared):
            family = family_of(each.group_id)
            if family is not None and family.name in found:
                found[family.name].append(each.group_id)
        return chain.from_iterable(found.values())

    def _limits(self, policy: PolicyFile | None) -> Iterator[NewGroup | None]:
        if policy is None or not self._appeared:
            return (_limit(each.group_id, None, self._max_growth_per_day) for each in self._appeared)
        facts = [facts_of(each.group_id, policy.owners, group_type=each.group_type) for each in self._appeared]
        rules = (ruling.rule for ruling in RuleMatcher(policy.rules).rule_all(facts))
        return (
            _limit(each.group_id, rule.name, rule.max_growth_per_day)
            for each, rule in zip(self._appeared, rules, strict=True)
        )


def _limit(group_id: str, rule: str | None, allowed: float | None) -> NewGroup | None:
    family = family_of(group_id)
    return None if family is None or allowed is None else NewGroup(family.name, rule, allowed)


_Found = tuple[dict[str, str], set[str]]
"""The matching groups with the reason, and the groups that certainly match or certainly do not."""


class GroupEvent(StrEnum):
    """The events that groups are watched for."""

    EMPTY = "empty"
    STALE = "stale"
    LAGGING = "lagging"
    GROWING = "growing"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchResult:
    """The result of one poll. For ``GROWING``, it is about families.

    :param matching: the matching groups, with the reason; of the others, those ``known`` certainly do not match.
    :param listed: the groups that are watched, of those that exist.
    :param complete: whether every broker listed its groups. A group that a complete listing lacks is gone.
    """

    matching: dict[str, str]
    known: set[str]
    listed: set[str]
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWatch(Watching):
    """A search for groups that are empty, stale or lagging, or for families that grow too fast.

    :param seconds: for ``STALE``: how long a group has been empty and unmoved, as observed by this object.
    :param max_lag: for ``LAGGING``: the highest acceptable lag, in messages.
    :param growth: for ``GROWING``: what appeared so far.
    :param policy: for ``GROWING``: reads the policy file, not in the event loop. Default: there is none.
    """

    event: GroupEvent
    groups: GroupFilter
    seconds: float = 0.0
    max_lag: int = 0
    growth: FamilyGrowth = field(default_factory=FamilyGrowth)
    policy: Callable[[], PolicyFile] | None = None

    async def poll(self, admin: AdminClient) -> WatchResult:
        """Poll once. Errors of single groups are part of the result; errors of the complete call are raised."""
        listed = await admin.list_groups()
        chosen = await asyncio.to_thread(self._chosen, list(listed))
        if self.event is GroupEvent.GROWING:
            return await self._growing(listed, chosen)
        matching, known = await self._found(admin, listed, chosen)
        return WatchResult(matching=matching, known=known, listed=set(chosen), complete=not listed.errors)

    def _chosen(self, listed: list[str]) -> list[str]:
        # Of 200,000 groups it takes a second: not in the event loop.
        refused = self.groups.refused(listed)
        return [group_id for group_id in listed if group_id not in refused]

    async def _found(self, admin: AdminClient, listed: GroupListings, chosen: list[str]) -> _Found:
        if self.event is GroupEvent.LAGGING:
            return await self._lagging(admin, chosen)
        empty = [group_id for group_id in chosen if listed[group_id].state is GroupState.EMPTY]
        known = {group_id for group_id in chosen if listed[group_id].state is not GroupState.UNKNOWN}
        if self.event is GroupEvent.EMPTY:
            return dict.fromkeys(empty, "has no members"), known
        return await self._stale(admin, empty, known)

    async def _growing(self, listed: GroupListings, chosen: list[str]) -> WatchResult:
        complete = not listed.errors
        kinds = {id_: listed[id_].type.value for id_ in chosen}
        await asyncio.to_thread(self.growth.see, kinds, self.clock(), complete=complete)
        # A policy that cannot be read fails this poll; what appeared is counted by the next one.
        policy = None if self.policy is None else await asyncio.to_thread(self.policy)
        growing = await asyncio.to_thread(self.growth.too_fast, policy)
        fast = {each.family: each.sentence() for each in growing}
        # Families that an incomplete listing does not show to grow stay what they were.
        return WatchResult(matching=fast, known=set(fast), listed=set(fast), complete=complete)

    async def _stale(self, admin: AdminClient, empty: list[str], known: set[str]) -> _Found:
        found = await admin.list_consumer_group_offsets(empty) if empty else {}
        read = {group_id: result.value for group_id, result in found.items() if result.value is not None}
        matching = {
            group_id: f"empty and unmoved for {unmoved:.0f} s"
            for group_id, unmoved in self.unmoved(read).items()
            if committed_partitions(read[group_id]) and unmoved >= self.seconds
        }
        return matching, known - (found.keys() - read.keys())

    async def _lagging(self, admin: AdminClient, chosen: list[str]) -> _Found:
        found = await admin.list_consumer_group_lag(chosen) if chosen else {}
        lags = {group_id: None if result.value is None else result.value.messages for group_id, result in found.items()}
        known = {group_id: lag for group_id, lag in lags.items() if lag is not None}
        return {group_id: f"lag {lag}" for group_id, lag in known.items() if lag > self.max_lag}, set(known)
