"""The groups of a cluster that are empty, stale or lagging now, and families that grow, found by one batched poll.

A group that cannot be read neither matches nor does not match: ``known`` contains only groups the broker told about.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from airflow_kafka_groups.kafka.models import GroupState
from airflow_kafka_groups.kafka.models.group_types import keeps_progress_elsewhere
from airflow_kafka_groups.observe.fingerprint import committed_partitions, fingerprint
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.triggers.growth import FamilyGrowth

if TYPE_CHECKING:
    from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
    from airflow_kafka_groups.kafka import AdminClient
    from airflow_kafka_groups.kafka.admin.results import GroupListings

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

    :param matching: the matching groups, with the reason.
    :param known: the groups that certainly match or certainly do not.
    :param complete: whether every broker listed its groups. A group that a complete listing lacks is gone.
    :param moved: whether this is the first poll of another cluster than before. Default false.
    """

    matching: dict[str, str]
    known: frozenset[str]
    listed: frozenset[str]
    complete: bool
    moved: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWatch:
    """A search for groups that are empty, stale or lagging, or for families that grow too fast.

    :param seconds: for ``STALE``: how long a group has been empty and unmoved, as observed by this object.
    :param max_lag: for ``LAGGING``: the highest acceptable lag, in messages.
    :param growth: for ``GROWING``: what appeared so far.
    :param policy: for ``GROWING``: reads the policy file, not in the event loop. Default: there is none.
    :param clock: returns seconds. Replaced in tests.
    """

    event: GroupEvent
    groups: GroupFilter
    seconds: float = 0.0
    max_lag: int = 0
    growth: FamilyGrowth = field(default_factory=FamilyGrowth)
    policy: Callable[[], PolicyFile] | None = None
    clock: Callable[[], float] = field(default=time.monotonic, repr=False, compare=False)
    _since: dict[str, tuple[str, float]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _seen_on: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    def missed(self) -> None:
        """Restart the idle time of every group: none could commit anything while its cluster was away."""
        self._since.clear()

    async def poll(self, admin: AdminClient) -> WatchResult:
        """Poll once. Errors of single groups are part of the result; errors of the complete call are raised.

        What was seen on another cluster says nothing of this one, and is forgotten.
        """
        here = await admin.cluster_id()
        moved = here is not None and self._seen_on not in ([], [here])
        if moved:
            self._since.clear()
            self.growth.forget()
        found = await self._poll(admin)
        if here is not None:
            self._seen_on[:] = [here]
        return replace(found, moved=moved)

    async def _poll(self, admin: AdminClient) -> WatchResult:
        listed = await admin.list_groups()
        chosen = await asyncio.to_thread(self._chosen, list(listed))
        if self.event is GroupEvent.GROWING:
            return await self._growing(listed, chosen)
        matching, known = await self._found(admin, listed, chosen)
        return WatchResult(
            matching=matching, known=frozenset(known), listed=frozenset(listed), complete=not listed.errors
        )

    def _chosen(self, listed: list[str]) -> list[str]:
        # Of 200,000 groups it takes a second: not in the event loop.
        refused = self.groups.refused(listed)
        return [group_id for group_id in listed if group_id not in refused]

    async def _found(self, admin: AdminClient, listed: GroupListings, chosen: list[str]) -> _Found:
        if self.event is GroupEvent.LAGGING:
            return await self._lagging(admin, _readable(listed, chosen))
        states = await _states(admin, listed, chosen)
        empty = [group_id for group_id in chosen if states.get(group_id) is GroupState.EMPTY]
        known = {group_id for group_id in chosen if states.get(group_id, GroupState.UNKNOWN) != "Unknown"}
        if self.event is GroupEvent.EMPTY:
            return dict.fromkeys(empty, "has no members"), known
        return await self._stale(admin, _readable(listed, empty), known)

    async def _growing(self, listed: GroupListings, chosen: list[str]) -> WatchResult:
        complete = not listed.errors
        kinds = {id_: listed[id_].type.value for id_ in chosen}
        await asyncio.to_thread(self.growth.see, kinds, self.clock(), complete=complete)
        # A policy that cannot be read fails this poll; what appeared is counted by the next one.
        policy = None if self.policy is None else await asyncio.to_thread(self.policy)
        fast = {each.family: each.sentence() for each in self.growth.too_fast(policy)}
        # Families that an incomplete listing does not show to grow stay what they were.
        return WatchResult(matching=fast, known=frozenset(fast), listed=frozenset(fast), complete=complete)

    async def _stale(self, admin: AdminClient, empty: list[str], known: set[str]) -> _Found:
        found = await admin.list_consumer_group_offsets(empty) if empty else {}
        now = self.clock()
        matching: dict[str, str] = {}
        unread = set()
        for group_id, result in found.items():
            if result.value is None:
                unread.add(group_id)
                continue
            seen = fingerprint(result.value)
            if self._since.get(group_id, ("", 0.0))[0] != seen:
                self._since[group_id] = (seen, now)
            unmoved = now - self._since[group_id][1]
            if committed_partitions(result.value) and unmoved >= self.seconds:
                matching[group_id] = f"empty and unmoved for {unmoved:.0f} s"
        for group_id in [group_id for group_id in self._since if group_id not in found or group_id in unread]:
            del self._since[group_id]  # a gap in the observations resets the time
        return matching, known - unread

    async def _lagging(self, admin: AdminClient, chosen: list[str]) -> _Found:
        found = await admin.list_consumer_group_lag(chosen) if chosen else {}
        matching: dict[str, str] = {}
        known = set()
        for group_id, result in found.items():
            lag = None if result.value is None else result.value.messages
            if lag is None:
                continue
            known.add(group_id)
            if lag > self.max_lag:
                matching[group_id] = f"lag {lag}"
        return matching, known


def _readable(listed: GroupListings, group_ids: Iterable[str]) -> list[str]:
    """Return the groups whose progress is stored as committed offsets."""
    kinds = ((group_id, listed[group_id]) for group_id in group_ids)
    return [group_id for group_id, kind in kinds if not keeps_progress_elsewhere(kind.type, kind.protocol_type)]


async def _states(admin: AdminClient, listed: GroupListings, chosen: list[str]) -> dict[str, GroupState]:
    """Return the state of each group: from the listing, or (before Kafka 2.6) from its description."""
    states = {group_id: listed[group_id].state for group_id in chosen}
    unknown = [group_id for group_id, state in states.items() if state is GroupState.UNKNOWN]
    if unknown:
        described = await admin.describe_consumer_groups(unknown)
        states |= {group_id: group.state for group_id, group in described.succeeded.items()}
    return states
