"""Which groups of a cluster are empty, stale or lagging just now: one batched look, however many groups there are.

What cannot be read is neither so nor not so: it is in ``clear`` only where the broker said it without doubt.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from airflow_kafka_groups.contracts.group_types import keeps_progress_elsewhere
from airflow_kafka_groups.maintenance.fingerprint import committed_partitions, fingerprint
from airflow_kafka_groups.maintenance.patterns import GroupFilter
from airflow_kafka_groups.models import GroupState

if TYPE_CHECKING:
    from airflow_kafka_groups.admin import AdminClient
    from airflow_kafka_groups.admin.results import GroupListings


class GroupEvent(StrEnum):
    """Say what groups are watched for."""

    EMPTY = "empty"
    STALE = "stale"
    LAGGING = "lagging"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """Be what one look found.

    :param matching: the groups that are so, with the reason.
    :param clear: the groups of which it is known whether they are so.
    :param listed: the groups that exist.
    :param complete: whether every broker listed its groups: one that is in no complete listing is gone.
    """

    matching: dict[str, str]
    clear: frozenset[str]
    listed: frozenset[str]
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWatch:
    """Look for groups that are empty, stale or lagging.

    :param event: what to look for.
    :param groups: which groups to look at.
    :param seconds: for ``STALE``: how long a group has been empty and unmoved, as this very object watched it.
    :param max_lag: for ``LAGGING``: the highest lag, in messages, that is still fine.
    :param clock: gives seconds; a test passes its own.
    """

    event: GroupEvent
    groups: GroupFilter
    seconds: float = 0.0
    max_lag: int = 0
    clock: Callable[[], float] = field(default=time.monotonic, repr=False, compare=False)
    _since: dict[str, tuple[str, float]] = field(default_factory=dict, init=False, repr=False, compare=False)

    async def look(self, admin: AdminClient) -> Sighting:
        """Ask once. Errors of single groups are part of the answer; those of the whole call are raised."""
        listed = await admin.list_groups()
        chosen = [group_id for group_id in listed if self.groups.selects(group_id)]
        if self.event is GroupEvent.LAGGING:
            return await self._lagging(admin, listed, _readable(listed, chosen))
        states = await _states(admin, listed, chosen)
        empty = [group_id for group_id in chosen if states.get(group_id) is GroupState.EMPTY]
        clear = frozenset(group_id for group_id in chosen if states.get(group_id, GroupState.UNKNOWN) != "Unknown")
        if self.event is GroupEvent.EMPTY:
            return Sighting(
                matching=dict.fromkeys(empty, "has no members"),
                clear=clear,
                listed=frozenset(listed),
                complete=not listed.errors,
            )
        return await self._stale(admin, listed, _readable(listed, empty), clear)

    async def _stale(
        self, admin: AdminClient, listed: GroupListings, empty: list[str], clear: frozenset[str]
    ) -> Sighting:
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
            stood = now - self._since[group_id][1]
            if committed_partitions(result.value) and stood >= self.seconds:
                matching[group_id] = f"empty and unmoved for {stood:.0f} s"
        for group_id in [group_id for group_id in self._since if group_id not in found or group_id in unread]:
            del self._since[group_id]  # a gap in the watch begins the time again
        return Sighting(matching=matching, clear=clear - unread, listed=frozenset(listed), complete=not listed.errors)

    async def _lagging(self, admin: AdminClient, listed: GroupListings, chosen: list[str]) -> Sighting:
        found = await admin.list_consumer_group_lag(chosen) if chosen else {}
        matching: dict[str, str] = {}
        clear = set()
        for group_id, result in found.items():
            if result.value is None or result.value.messages is None:
                continue
            clear.add(group_id)
            behind = result.value.messages + sum(lag.lost for lag in result.value.partitions.values())
            if behind > self.max_lag:
                matching[group_id] = f"lag {behind}"
        return Sighting(matching=matching, clear=frozenset(clear), listed=frozenset(listed), complete=not listed.errors)


def _readable(listed: GroupListings, group_ids: Iterable[str]) -> list[str]:
    """Leave out groups whose progress is not in committed offsets."""
    kinds = ((group_id, listed[group_id]) for group_id in group_ids)
    return [group_id for group_id, kind in kinds if not keeps_progress_elsewhere(kind.type, kind.protocol_type)]


async def _states(admin: AdminClient, listed: GroupListings, chosen: list[str]) -> dict[str, GroupState]:
    """Give the state of each group: from the listing, or (before Kafka 2.6) by describing it."""
    states = {group_id: listed[group_id].state for group_id in chosen}
    untold = [group_id for group_id, state in states.items() if state is GroupState.UNKNOWN]
    if untold:
        described = await admin.describe_consumer_groups(untold)
        states |= {group_id: group.state for group_id, group in described.succeeded.items()}
    return states
