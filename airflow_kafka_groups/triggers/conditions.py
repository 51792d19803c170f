"""What a sensor waits for, as a question to an AdminClient: shared by ``poke`` and by triggers.

Each condition is plain data with one method, ``check(admin)``. What cannot be read has not been reached: a condition
never says yes by doubt. Errors of single groups are part of the answer; errors of the whole call (wrong password, no
broker) are raised.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from airflow_kafka_groups.admin.lag import group_lag
from airflow_kafka_groups.models import GroupOffsets, TopicPartition
from airflow_kafka_groups.triggers.log_offsets import read_logs

if TYPE_CHECKING:
    from airflow_kafka_groups.admin import AdminClient
    from airflow_kafka_groups.admin.lag import GroupLag
    from airflow_kafka_groups.admin.results import GroupResults

V = TypeVar("V")
Targets = Mapping[str, Mapping[TopicPartition, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PollResult:
    """Be the answer of one poll.

    :param reached: whether the waiting is over.
    :param waiting: why not yet, for each group (or coordinator key) that is not there.
    :param total: how many were asked about.
    """

    reached: bool
    waiting: Mapping[str, str]
    total: int

    def __str__(self) -> str:
        """Say it in one line, with the first few reasons."""
        done = self.total - len(self.waiting)
        first = "; ".join(f"{group_id}: {reason}" for group_id, reason in list(self.waiting.items())[:3])
        more = f"; and {len(self.waiting) - 3} more" if len(self.waiting) > 3 else ""
        return f"{done} of {self.total} there" + (f", waiting for {first}{more}" if first else "")


class Condition(Protocol):
    """Be a question that can be polled."""

    async def check(self, admin: AdminClient) -> PollResult:
        """Ask once."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorsAvailable:
    """Wait until every group has a coordinator that is available.

    :param group_ids: the groups.
    """

    group_ids: tuple[str, ...]

    async def check(self, admin: AdminClient) -> PollResult:
        """Ask for all coordinators in one batched call."""
        found = await admin.find_coordinators(self.group_ids)
        waiting = missing(self.group_ids, found)
        return PollResult(reached=not waiting, waiting=waiting, total=len(self.group_ids))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsGone:
    """Wait until none of the groups exists: not in a complete listing, and dead when described.

    :param group_ids: the groups.
    """

    group_ids: tuple[str, ...]

    async def check(self, admin: AdminClient) -> PollResult:
        """List all groups and describe the named ones; both must say that a group is gone."""
        from airflow_kafka_groups.maintenance.deletion.verify import verify_deleted

        found = await verify_deleted(admin, self.group_ids)
        waiting = {**found.present, **found.unclear}
        return PollResult(reached=found.ok, waiting=waiting, total=len(self.group_ids))


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsReached:
    """Wait until committed offsets are at or past their targets.

    :param targets: for each group, the offset each partition must have reached.
    :param any_group: one group is enough; default all of them.
    """

    targets: Targets
    any_group: bool = False

    async def check(self, admin: AdminClient) -> PollResult:
        """Read all groups' committed offsets in one batched call."""
        found = await admin.list_consumer_group_offsets(list(self.targets), require_stable=True)
        waiting = missing(self.targets, found)
        for group_id, wanted in self.targets.items():
            if group_id not in waiting and (reason := behind(wanted, found[group_id].unwrap())):
                waiting[group_id] = reason
        return poll_result(waiting, len(self.targets), self.any_group)


@dataclass(frozen=True, slots=True, kw_only=True)
class LagAtMost:
    """Wait until groups have caught up.

    :param group_ids: the groups.
    :param total: highest sum of a group's lag over its partitions, in messages; ``None`` to not look at it.
    :param partition: highest lag of any single partition, in messages; ``None`` to not look at it.
    :param seconds: highest age of the next record to read in any partition; ``None`` to not look at it.
    :param any_group: one group is enough; default all of them.
    :param clock: gives seconds since 1970; a test passes its own.
    """

    group_ids: tuple[str, ...]
    total: int | None = None
    partition: int | None = None
    seconds: float | None = None
    any_group: bool = False
    clock: Callable[[], float] = field(default=time.time, repr=False, compare=False)

    async def check(self, admin: AdminClient) -> PollResult:
        """Read all groups' offsets, each partition's ends, and where its young records begin, once."""
        found = await admin.list_consumer_group_offsets(list(self.group_ids))
        waiting = missing(self.group_ids, found)
        there = {group_id: found[group_id].unwrap() for group_id in self.group_ids if group_id not in waiting}
        logs = await read_logs(admin, there.values(), None if self.seconds is None else self.clock() - self.seconds)
        for group_id, offsets in there.items():
            lag = group_lag(offsets, logs.starts, logs.ends)
            reason = lagging(lag, total=self.total, partition=self.partition) or logs.late(offsets, lag, self.seconds)
            if reason:
                waiting[group_id] = reason
        return poll_result(waiting, len(self.group_ids), self.any_group)


def behind(wanted: Mapping[TopicPartition, int], offsets: GroupOffsets) -> str | None:
    """Say which partition has not reached its target, ``None`` when all have. No commit is not there."""
    for partition, target in wanted.items():
        committed = offsets.get(partition)
        if committed is None or committed.offset < target:
            at = "no commit" if committed is None else f"committed {committed.offset}"
            return f"{partition.topic}[{partition.partition}]: {at}, target {target}"
    return None


def lagging(lag: GroupLag, *, total: int | None, partition: int | None) -> str | None:
    """Say why the lag is not known to be low enough, ``None`` when it is.

    Doubt is a reason: a group without commits, an end that cannot be read, a commit past the end (the topic was made
    anew, so nothing is known about what was read of it). Records that are gone unread count as lag.
    """
    summed = highest = 0
    for where, of_partition in lag.partitions.items():
        if of_partition.messages is None:
            return f"{where.topic}[{where.partition}]: the lag cannot be told ({of_partition.flag.value})"
        behind_by = of_partition.messages + of_partition.lost
        summed += behind_by
        highest = max(highest, behind_by)
    if not lag.partitions:
        return "has no committed offsets"
    if total is not None and summed > total:
        return f"lag {summed}, at most {total} wanted"
    if partition is not None and highest > partition:
        return f"lag {highest} in one partition, at most {partition} wanted"
    return None


def missing(wanted: Iterable[str], found: GroupResults[V]) -> dict[str, str]:
    """Say why there is no value, for each group that has none."""
    waiting: dict[str, str] = {}
    for group_id in wanted:
        result = found.get(group_id)
        if result is None:
            waiting[group_id] = "no answer"
        elif result.error is not None:
            waiting[group_id] = str(result.error)
    return waiting


def poll_result(waiting: dict[str, str], total: int, any_group: bool) -> PollResult:
    """Sum up: all groups have to be there, or any one of them."""
    reached = len(waiting) < total if any_group else not waiting
    return PollResult(reached=reached, waiting=waiting, total=total)
