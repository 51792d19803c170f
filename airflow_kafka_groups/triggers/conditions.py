"""The conditions that sensors wait for, evaluated with an AdminClient. Shared by ``poke`` and triggers.

Each condition is a dataclass with one method, ``check(admin)``. Anything that cannot be read counts as not reached.
Errors of single groups are part of the result; errors of the complete call (wrong password, no broker) are raised.
With ``any_group``, one of the groups is enough.

Lag in seconds needs no record: ListOffsets by timestamp returns the first offset whose record is at or after a time. If
that is at or below the committed one, no unread record is older. Timestamps are the records' own, as written by
producers (or by brokers with ``LogAppendTime``), and compared with this machine's clock, so clock skew matters. If
timestamps do not increase with offsets, an older record that follows a recent one is missed.

``EndReached`` keeps the end offsets, which are passed on from the worker to the triggerer. ``NoProgress`` keeps since
when nothing has moved, which is not: a process that has not watched for the required time cannot know.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Protocol, TypeVar

from airflow_kafka_groups.exceptions import AuthenticationFailedError, ConfigurationError, ConnectionFailedError
from airflow_kafka_groups.kafka.admin.lag import GroupLag, LagFlag, LogBounds
from airflow_kafka_groups.kafka.models import (
    GroupDescription,
    GroupOffsets,
    GroupState,
    ListedOffset,
    OffsetSpec,
    TopicPartition,
)
from airflow_kafka_groups.shown import one_line, printable, shortened

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka import AdminClient
    from airflow_kafka_groups.kafka.admin.lag import LogOffsets
    from airflow_kafka_groups.kafka.admin.results import GroupResults


V = TypeVar("V")
_REASON = 500  # the most characters of a reason: it may end with a remedy
Targets = Mapping[str, Mapping[TopicPartition, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PollResult:
    """The result of one poll: for each group that is not ready the reason, of so many that were checked."""

    waiting: Mapping[str, str]
    total: int
    any_group: bool = False

    @property
    def reached(self) -> bool:
        return len(self.waiting) < self.total if self.any_group else not self.waiting

    def __str__(self) -> str:
        """Return one line with the counts and the first three reasons."""
        done = self.total - len(self.waiting)
        waiting = list(self.waiting.items())[:3]
        first = "; ".join(f"{one_line(group_id)}: {printable(shortened(why, _REASON))}" for group_id, why in waiting)
        more = f"; and {len(self.waiting) - 3} more" if len(self.waiting) > 3 else ""
        return f"{done} of {self.total} ready" + (f", waiting for {first}{more}" if first else "")


class Condition(Protocol):
    """A condition that can be polled."""

    async def check(self, admin: AdminClient) -> PollResult: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorsAvailable:
    """Every group has an available coordinator."""

    group_ids: tuple[str, ...]

    async def check(self, admin: AdminClient) -> PollResult:
        found = await admin.find_coordinators(self.group_ids)
        return PollResult(waiting=answers(self.group_ids, found)[1], total=len(self.group_ids))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsGone:
    """None of the groups exists: each is absent from a complete listing, and dead when described.

    :param kafka_cluster_id: the cluster that they were deleted on: on another one, they prove nothing. Default: any.
    """

    group_ids: tuple[str, ...]
    kafka_cluster_id: str | None = None

    async def check(self, admin: AdminClient) -> PollResult:
        from airflow_kafka_groups.change.deletion.verify import verify_deleted

        wanted = self.kafka_cluster_id
        here = None if wanted is None else await admin.cluster_id()
        if wanted is not None and here is None:
            await admin.brokers()  # reads the metadata again, for the next poll
            waiting = dict.fromkeys(self.group_ids, "the brokers do not tell the id of their cluster")
            return PollResult(waiting=waiting, total=len(waiting))
        if here != wanted:
            why = f"the audit record is of Kafka cluster {wanted!r}, and this connection leads to {here!r}"
            raise ConfigurationError("kafka_groups_conn_id", None, why)
        found = await verify_deleted(admin, self.group_ids)
        _raise_refused(chain.from_iterable(map(_lost_connection, found.errors)))
        return PollResult(waiting={**found.present, **found.unclear}, total=len(self.group_ids))


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsReached:
    """Committed offsets are at or past their targets."""

    targets: Targets
    any_group: bool = False

    async def check(self, admin: AdminClient) -> PollResult:
        found = await admin.list_consumer_group_offsets(list(self.targets), require_stable=True)
        there, waiting = answers(self.targets, found)
        waiting |= await short_of_targets(admin, there, self.targets)
        return PollResult(waiting=waiting, total=len(self.targets), any_group=self.any_group)


@dataclass(frozen=True, slots=True, kw_only=True)
class LagAtMost:
    """Groups have caught up.

    :param total: maximum total lag of a group, in messages; ``None`` to ignore it.
    :param partition: maximum lag of any single partition, in messages; ``None`` to ignore it.
    :param seconds: maximum age of the next unread record of any partition; ``None`` to ignore it.
    """

    group_ids: tuple[str, ...]
    total: int | None = None
    partition: int | None = None
    seconds: float | None = None
    any_group: bool = False
    clock: Callable[[], float] = field(default=time.time, repr=False, compare=False)

    async def check(self, admin: AdminClient) -> PollResult:
        there, waiting = answers(self.group_ids, await admin.list_consumer_group_lag(list(self.group_ids)))
        recent = await self._recent(admin, there.values())
        for group_id, lag in there.items():
            if reason := lagging(lag, total=self.total, partition=self.partition) or self._too_old(lag, recent):
                waiting[group_id] = reason
        return PollResult(waiting=waiting, total=len(self.group_ids), any_group=self.any_group)

    async def _recent(self, admin: AdminClient, lags: Iterable[GroupLag]) -> LogOffsets:
        """Return the first offset of each partition whose record is not too old; nothing if no age is too much."""
        wanted = {where for lag in lags for where in lag.partitions} if self.seconds is not None else ()
        since = max(int((self.clock() - (self.seconds or 0)) * 1000), 0)
        return await admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.for_timestamp(since))) if wanted else {}

    def _too_old(self, lag: GroupLag, recent: LogOffsets) -> str | None:
        for where, of_partition in lag.partitions.items() if self.seconds is not None else ():
            if not of_partition.messages:
                continue  # has read everything, or has no commit
            first, committed = recent.get(where), lag.offsets[where]
            if not isinstance(first, ListedOffset):
                return f"{where.topic}[{where.partition}]: the timestamps of its records cannot be read"
            if committed is None or not 0 <= first.offset <= committed.offset:
                return f"{where.topic}[{where.partition}]: the next unread record is more than {self.seconds:g} s old"
        return None


def behind(wanted: Mapping[TopicPartition, int], offsets: GroupOffsets) -> str | None:
    """Return why a target is not reached, ``None`` if all are. A partition without a commit is not."""
    for partition, target in wanted.items():
        committed = offsets.get(partition)
        if committed is None or committed.offset < target:
            at = "no commit" if committed is None else f"committed {committed.offset}"
            return f"{partition.topic}[{partition.partition}]: {at}, target {target}"
    return None


async def _ends(admin: AdminClient, wanted: set[TopicPartition]) -> dict[TopicPartition, int]:
    found = await admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.latest())) if wanted else {}
    return {at: end.offset for at, end in found.items() if isinstance(end, ListedOffset) and end.offset >= 0}


async def short_of_targets(admin: AdminClient, groups: Mapping[str, GroupOffsets], targets: Targets) -> dict[str, str]:
    """Return the groups that have not reached their targets, or not certainly, with the reason.

    What a group has read of a partition is not known if it has committed beyond the end, so its offsets come first.
    """
    waiting = {id_: reason for id_, offsets in groups.items() if (reason := behind(targets[id_], offsets))}
    reached = {id_: offsets for id_, offsets in groups.items() if id_ not in waiting}
    ends = await _ends(admin, {where for group_id in reached for where in targets[group_id]})
    for group_id, offsets in reached.items():
        for where in targets[group_id]:
            end, committed = ends.get(where), offsets.get(where)
            at = f"{where.topic}[{where.partition}]"
            if end is None:
                waiting[group_id] = f"{at}: the end offset cannot be read"
            elif committed is not None and committed.offset > end:
                waiting[group_id] = f"{at}: committed {committed.offset}, past the end {end}"
    return waiting


def lagging(lag: GroupLag, *, total: int | None, partition: int | None) -> str | None:
    """Return why the lag is too high or unknown, ``None`` if it is known to be low enough.

    Unknown: a group without commits, an end offset that cannot be read, a commit beyond the end.
    """
    summed = highest = 0
    for where, of_partition in lag.partitions.items():
        if of_partition.flag is LagFlag.NO_COMMIT:
            continue
        if of_partition.messages is None:
            return f"{where.topic}[{where.partition}]: the lag is unknown ({of_partition.flag.value})"
        summed += of_partition.messages
        highest = max(highest, of_partition.messages)
    if not lag.committed_partitions:
        return "has no committed offsets"
    if total is not None and summed > total:
        return f"lag {summed}, must be at most {total}"
    if partition is not None and highest > partition:
        return f"lag {highest} in one partition, must be at most {partition}"
    return None


def answers(wanted: Iterable[str], found: GroupResults[V]) -> tuple[dict[str, V], dict[str, str]]:
    """Return the value of each group that has one, and the error of each other group.

    Raises ``AuthenticationFailedError`` if a broker refuses the login of a client that was connected, which no later
    poll will change, and ``ConnectionFailedError`` if no broker could be reached for any of the groups.
    """
    there: dict[str, V] = {}
    waiting: dict[str, str] = {}
    lost: dict[str, ConnectionFailedError] = {}
    for group_id in wanted:
        result = found.get(group_id)
        if result is None:
            waiting[group_id] = "no result"
        elif result.error is not None:
            waiting[group_id] = str(result.error)
            lost.update((group_id, error) for error in _lost_connection(result.error))
        else:
            there[group_id] = result.unwrap()
    _raise_refused(lost.values())
    if lost and not there and len(lost) == len(waiting):
        raise next(iter(lost.values()))
    return there, waiting


def _raise_refused(errors: Iterable[ConnectionFailedError]) -> None:
    for error in errors:
        if isinstance(error, AuthenticationFailedError):
            raise error


def _lost_connection(error: Exception) -> list[ConnectionFailedError]:
    """Return the failed connection that is an error, or that its deadline passed on; none for other errors."""
    return [each for each in (error, error.__cause__) if isinstance(each, ConnectionFailedError)][:1]


_ABSENT = frozenset({GroupState.DEAD, GroupState.UNKNOWN})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Described:
    """The base class of conditions on what a group's coordinator says of it."""

    group_ids: tuple[str, ...]
    any_group: bool = False

    async def check(self, admin: AdminClient) -> PollResult:
        there, waiting = answers(self.group_ids, await admin.describe_consumer_groups(self.group_ids))
        waiting |= {id_: reason for id_, group in there.items() if (reason := self.why_not(group))}
        return PollResult(waiting=waiting, total=len(self.group_ids), any_group=self.any_group)

    def why_not(self, group: GroupDescription) -> str | None:
        """Return why a group is not ready, ``None`` if it is."""
        raise NotImplementedError


class GroupsExist(_Described):
    """Groups exist, in any state."""

    __slots__ = ()

    def why_not(self, group: GroupDescription) -> str | None:
        return f"state {group.state.value}" if group.state in _ABSENT else None


class GroupsEmpty(_Described):
    """Groups exist and have no members. A missing group is not empty: its name may be misspelt."""

    __slots__ = ()

    def why_not(self, group: GroupDescription) -> str | None:
        if group.state is GroupState.DEAD:
            return "does not exist"
        if group.state is not GroupState.EMPTY or group.members:
            return f"state {group.state.value}, {len(group.members)} member(s)"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndReached:
    """Groups have read up to the end offsets at the start of the wait.

    The end offsets of a group are those at the first poll that finds commits of it: the commits tell which partitions
    it reads. ``targets`` has those known so far.
    """

    group_ids: tuple[str, ...]
    any_group: bool = False
    targets: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)

    async def check(self, admin: AdminClient) -> PollResult:
        found = await admin.list_consumer_group_offsets(list(self.group_ids), require_stable=True)
        there, waiting = answers(self.group_ids, found)
        waiting |= await self._fix_ends(admin, {id_: of for id_, of in there.items() if id_ not in self.targets})
        there = {id_: of for id_, of in there.items() if id_ not in waiting}
        waiting |= await short_of_targets(admin, there, await self._readable(admin, there))
        return PollResult(waiting=waiting, total=len(self.group_ids), any_group=self.any_group)

    async def _readable(self, admin: AdminClient, groups: Mapping[str, GroupOffsets]) -> Targets:
        """Return the targets, less what is left before them without a record to read."""
        ends: dict[TopicPartition, ListedOffset] = {}
        for where, end in (each for group_id in groups for each in self.targets[group_id].items()):
            ends[where] = ListedOffset(max(end, ends[where].offset if where in ends else 0))
        bounds = LogBounds(dict.fromkeys(ends, ListedOffset(0)), ends)
        await admin.end_readable(bounds, groups.values())
        return {
            group_id: {
                where: min(end, bounds.readable.get(where, end)) for where, end in self.targets[group_id].items()
            }
            for group_id in groups
        }

    async def _fix_ends(self, admin: AdminClient, groups: Mapping[str, GroupOffsets]) -> dict[str, str]:
        committed = {
            group_id: [where for where, value in offsets.items() if value is not None]
            for group_id, offsets in groups.items()
        }
        ends = await _ends(admin, {where for partitions in committed.values() for where in partitions})
        waiting = {}
        for group_id, partitions in committed.items():
            unclear = [where for where in partitions if where not in ends]
            if not partitions:
                waiting[group_id] = "has no committed offsets"
            elif unclear:
                waiting[group_id] = f"{unclear[0].topic}[{unclear[0].partition}]: the end offset cannot be read"
            else:
                self.targets[group_id] = {where: ends[where] for where in partitions}
        return waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """What compares polls with earlier ones, and so has to know of those that failed."""

    clock: Callable[[], float] = field(default=time.monotonic, repr=False, compare=False)
    _since: dict[str, tuple[str, float]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def missed(self) -> None:
        """Restart the time of every group: what happened since the last poll is not known."""
        self._since.clear()

    def unmoved(self, groups: Mapping[str, GroupOffsets]) -> dict[str, float]:
        """Take in what could be read, and return for how many seconds each group has not moved.

        A group that is missing starts again: there is a gap in the observations.
        """
        from airflow_kafka_groups.observe.fingerprint import fingerprint

        now, before = self.clock(), dict(self._since)
        self._since.clear()
        for group_id, offsets in groups.items():
            seen = fingerprint(offsets)
            earlier = before.get(group_id, ("", now))
            self._since[group_id] = earlier if earlier[0] == seen else (seen, now)
        return {group_id: now - since for group_id, (_, since) in self._since.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class NoProgress(Watching):
    """Groups' committed offsets have not moved for some time, as observed by this object.

    :param only_with_lag: only groups that are known to have unread records count. Default true.
    """

    group_ids: tuple[str, ...]
    seconds: float
    only_with_lag: bool = True
    any_group: bool = False

    async def check(self, admin: AdminClient) -> PollResult:
        from airflow_kafka_groups.observe.fingerprint import committed_partitions

        found = await admin.list_consumer_group_offsets(list(self.group_ids))
        there, waiting = answers(self.group_ids, found)
        for group_id, unmoved in self.unmoved(there).items():
            if not committed_partitions(there[group_id]):
                waiting[group_id] = "has no committed offsets"
            elif unmoved < self.seconds:
                waiting[group_id] = f"no progress for {unmoved:.0f} s, {self.seconds:g} s required"
        if self.only_with_lag:
            waiting |= await self._without_lag(admin, [id_ for id_ in self.group_ids if id_ not in waiting])
        return PollResult(waiting=waiting, total=len(self.group_ids), any_group=self.any_group)

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
