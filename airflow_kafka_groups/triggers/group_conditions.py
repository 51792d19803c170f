"""Conditions on groups: existing, empty, read up to the end, and without progress.

As in ``conditions``, anything that cannot be read counts as not reached. Two of them have a state: ``EndReached`` keeps
the end offsets (passed on from the worker to the triggerer), ``NoProgress`` since when nothing has moved (not passed
on: a process that has not watched for the required time cannot know).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_kafka_groups.kafka.models import GroupDescription, GroupOffsets, GroupState, OffsetSpec
from airflow_kafka_groups.triggers.conditions import (
    PollResult,
    answers,
    known_offset,
    lagging,
    poll_result,
    short_of_targets,
)

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka import AdminClient
    from airflow_kafka_groups.kafka.models import TopicPartition

_ABSENT = frozenset({GroupState.DEAD, GroupState.UNKNOWN})


async def is_elsewhere(admin: AdminClient, seen_on: list[str]) -> bool:
    """Return whether a connection leads to another cluster than before.

    :param seen_on: the id of the cluster before, empty if it is not known; replaced by that of the cluster now.
    """
    here = await admin.cluster_id()
    if here is None or [here] == seen_on:
        return False
    had_other = bool(seen_on)
    seen_on[:] = [here]
    return had_other


@dataclass(frozen=True, slots=True, kw_only=True)
class _Described:
    """The base class of conditions on what a group's coordinator says of it.

    :param any_group: one group is enough. Default: all of them.
    """

    group_ids: tuple[str, ...]
    any_group: bool = False

    async def check(self, admin: AdminClient) -> PollResult:
        """Describe all groups in one batched call."""
        there, waiting = answers(self.group_ids, await admin.describe_consumer_groups(self.group_ids))
        waiting |= {id_: reason for id_, group in there.items() if (reason := self.why_not(group))}
        return poll_result(waiting, len(self.group_ids), self.any_group)

    def why_not(self, group: GroupDescription) -> str | None:
        """Return why a group is not ready, ``None`` if it is."""
        raise NotImplementedError


class GroupsExist(_Described):
    """Groups exist, in any state."""

    __slots__ = ()

    def why_not(self, group: GroupDescription) -> str | None:
        """Return the state of a group that does not exist, or may not."""
        return f"state {group.state.value}" if group.state in _ABSENT else None


class GroupsEmpty(_Described):
    """Groups exist and have no members. A missing group is not empty: its name may be misspelt."""

    __slots__ = ()

    def why_not(self, group: GroupDescription) -> str | None:
        """Return what a group has instead of no members."""
        if group.state is GroupState.DEAD:
            return "does not exist"
        if group.state is not GroupState.EMPTY or group.members:
            return f"state {group.state.value}, {len(group.members)} member(s)"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndReached:
    """Groups have read up to the end offsets at the start of the wait.

    The end offsets of a group are those at the first poll that finds commits of it: the commits tell which partitions
    it reads.

    :param any_group: one group is enough. Default: all of them.
    :param targets: the end offsets known so far; polls add the others.
    :param seen_on: the id of their cluster, empty while it is not known. On another cluster, the wait begins again.
    """

    group_ids: tuple[str, ...]
    any_group: bool = False
    targets: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    seen_on: list[str] = field(default_factory=list)

    async def check(self, admin: AdminClient) -> PollResult:
        """Read all groups' offsets, and the end offsets that are not known yet."""
        if await is_elsewhere(admin, self.seen_on):
            self.targets.clear()
        found = await admin.list_consumer_group_offsets(list(self.group_ids), require_stable=True)
        there, waiting = answers(self.group_ids, found)
        waiting |= await self._fix_ends(admin, {id_: of for id_, of in there.items() if id_ not in self.targets})
        there = {id_: of for id_, of in there.items() if id_ not in waiting}
        waiting |= await short_of_targets(admin, there, self.targets)
        return poll_result(waiting, len(self.group_ids), self.any_group)

    async def _fix_ends(self, admin: AdminClient, groups: Mapping[str, GroupOffsets]) -> dict[str, str]:
        committed = {
            group_id: [where for where, value in offsets.items() if value is not None]
            for group_id, offsets in groups.items()
        }
        wanted = {where for partitions in committed.values() for where in partitions}
        ends = await admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.latest())) if wanted else {}
        waiting = {}
        for group_id, partitions in committed.items():
            unclear = [where for where in partitions if known_offset(ends.get(where)) is None]
            if not partitions:
                waiting[group_id] = "has no committed offsets"
            elif unclear:
                waiting[group_id] = f"{unclear[0].topic}[{unclear[0].partition}]: the end offset cannot be read"
            else:
                self.targets[group_id] = {where: known_offset(ends[where]) or 0 for where in partitions}
        return waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class NoProgress:
    """Groups' committed offsets have not moved for some time, as observed by this object.

    :param seconds: how long no offset has moved.
    :param only_with_lag: only groups with unread records count. Default true. A group with unknown lag does not count.
    :param any_group: one group is enough. Default: all of them.
    :param clock: returns seconds. Replaced in tests.
    """

    group_ids: tuple[str, ...]
    seconds: float
    only_with_lag: bool = True
    any_group: bool = False
    clock: Callable[[], float] = field(default=time.monotonic, repr=False, compare=False)
    _since: dict[str, tuple[str, float]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _seen_on: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    def missed(self) -> None:
        """Restart the time of every group: none could commit anything while its cluster was away."""
        self._since.clear()

    async def check(self, admin: AdminClient) -> PollResult:
        """Read all groups' offsets, and the lag of those that have not moved."""
        from airflow_kafka_groups.observe.fingerprint import committed_partitions, fingerprint

        if await is_elsewhere(admin, self._seen_on):
            self._since.clear()
        found = await admin.list_consumer_group_offsets(list(self.group_ids))
        now = self.clock()
        there, waiting = answers(self.group_ids, found)
        for group_id in waiting:
            self._since.pop(group_id, None)  # a gap in the observations resets the time
        for group_id, offsets in there.items():
            seen = fingerprint(offsets)
            if self._since.get(group_id, ("", 0.0))[0] != seen:
                self._since[group_id] = (seen, now)
            unmoved = now - self._since[group_id][1]
            if not committed_partitions(offsets):
                waiting[group_id] = "has no committed offsets"
            elif unmoved < self.seconds:
                waiting[group_id] = f"no progress for {unmoved:.0f} s, {self.seconds:g} s required"
        if self.only_with_lag:
            waiting |= await self._without_lag(admin, [id_ for id_ in self.group_ids if id_ not in waiting])
        return poll_result(waiting, len(self.group_ids), self.any_group)

    async def _without_lag(self, admin: AdminClient, group_ids: list[str]) -> dict[str, str]:
        if not group_ids:
            return {}
        there, waiting = answers(group_ids, await admin.list_consumer_group_lag(group_ids))
        for group_id, lag in there.items():
            if lag.messages is None:
                waiting[group_id] = "the lag is unknown"
            elif lagging(lag, total=0, partition=None) is None:
                waiting[group_id] = "has nothing left to read"
        return waiting
