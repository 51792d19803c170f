"""Resets of committed offsets: to the start or end of the log, a time, a distance, given or another group's offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_kafka_groups.change.restore.change_offsets import Earlier, OffsetRequest, first_try
from airflow_kafka_groups.change.restore.current_logs import commits_of, unread_of
from airflow_kafka_groups.change.restore.earlier_tries import SHIFT_BY, TARGET, in_topics
from airflow_kafka_groups.checks import check_number
from airflow_kafka_groups.durations import show_duration
from airflow_kafka_groups.exceptions import ConfigurationError, MaintenanceError
from airflow_kafka_groups.kafka.models import ListedOffset, OffsetAndMetadata, OffsetSpec, TopicPartition
from airflow_kafka_groups.ledger.proposed_changes import Change, Commits, is_same
from airflow_kafka_groups.observe.log_ends import Ends, Unread, left_out, log_ends
from airflow_kafka_groups.observe.patterns import check_group_ids
from airflow_kafka_groups.storage.layout import Layout, utc_now

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient


TargetOffsets = Mapping[str, Mapping[TopicPartition, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetRequest(OffsetRequest):
    """Reset groups to an end of the log, a time, or by a distance. Raises ``ConfigurationError`` for invalid values.

    Pass exactly one of ``to``, ``timestamp_ms``, ``ago_seconds`` and ``shift_by``. An offset outside the log is moved
    to its nearer end.

    :param group_ids: the groups, without duplicates.
    :param topics: only these topics. Default: all topics with a commit.
    :param to: ``"earliest"`` or ``"latest"``.
    :param timestamp_ms: the first record at or after this time, in milliseconds since 1970; the end if there is none.
    :param ago_seconds: the same, for the time so many seconds before the offsets are read.
    :param shift_by: the number of records to move forward, or back if negative.
    """

    what: ClassVar[str] = "reset"
    may_be_absent: ClassVar[bool] = False
    group_ids: Sequence[str]
    topics: Sequence[str] | None = None
    to: str | None = None
    timestamp_ms: int | None = None
    ago_seconds: float | None = None
    shift_by: int | None = None

    def __post_init__(self) -> None:
        check_group_ids(self.group_ids)
        given = (self.to, self.timestamp_ms, self.ago_seconds, self.shift_by)
        if sum(value is not None for value in given) != 1:
            raise ConfigurationError("to, timestamp, ago, shift_by", None, "pass exactly one of them")
        if self.to not in (None, "earliest", "latest"):
            raise ConfigurationError("to", self.to, 'must be "earliest" or "latest"')
        if self.timestamp_ms is not None and self.timestamp_ms < 0:  # to brokers, some of these are the ends of a log
            raise ConfigurationError("timestamp_ms", self.timestamp_ms, "must be a time since 1970, in milliseconds")
        if self.ago_seconds is not None and check_number("ago", self.ago_seconds) < 0:
            raise ConfigurationError("ago", self.ago_seconds, "must be 0 or a number of seconds")

    @property
    def facts(self) -> dict[str, Any]:
        """The distance, or the target."""
        if self.shift_by is not None:
            return {SHIFT_BY: self.shift_by}
        if self.ago_seconds is not None:
            return {TARGET: f"{show_duration(self.ago_seconds)} ago"}
        return {TARGET: self.timestamp_ms if self.to is None else self.to}

    async def propose(self, admin: MaintenanceClient, layout: Layout, earlier: Earlier = first_try) -> list[Change]:
        """Return the changes that the reset would commit, for partitions with a commit."""
        wanted, ends = await _read(
            admin, self.group_ids, lambda _, before: list(filter(in_topics(self.topics), before))
        )
        # When the offsets are read: a try that still goes on has recorded each of its commits before.
        tries = await asyncio.to_thread(earlier, await admin.cluster_id())
        time_ms, times = self.timestamp_ms, dict[TopicPartition, object]()
        if self.ago_seconds is not None:
            time_ms = max(round((utc_now().timestamp() - self.ago_seconds) * 1000), 0)
        if time_ms is not None and ends:
            times |= await admin.list_offsets(dict.fromkeys(ends, OffsetSpec.for_timestamp(time_ms)))

        def offset(group_id: str, where: TopicPartition, start: int, end: int, before: int | None) -> int | str:
            if (meant := tries.target(group_id, where)) is not None:
                return meant
            if self.to is not None:
                return start if self.to == "earliest" else end
            if self.shift_by is not None:
                return (before or 0) + self.shift_by
            found = times.get(where)
            if not isinstance(found, ListedOffset):
                return left_out(f"the offset for the timestamp cannot be read: {found}", found)
            return end if found.offset < 0 else found.offset

        return [_propose(group_id, *wanted[group_id], ends, partial(offset, group_id)) for group_id in self.group_ids]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRequest(OffsetRequest):
    """Set committed offsets to given values, limited to each log.

    :param offsets: the offsets by group and partition.
    :param create: also create groups that do not exist. Default false: they are kept.
    """

    what: ClassVar[str] = "alter"
    offsets: TargetOffsets
    create: bool = False

    @property
    def may_be_absent(self) -> bool:
        """Whether groups that do not exist are created."""
        return self.create

    async def propose(self, admin: MaintenanceClient, layout: Layout, earlier: Earlier = first_try) -> list[Change]:
        """Return the changes that would set the offsets."""
        offsets = self.offsets
        wanted, ends = await _read(admin, list(offsets), lambda group_id, _: list(offsets[group_id]))
        return [
            _propose(group_id, *wanted[group_id], ends, lambda where, *_, of=offsets[group_id]: of[where])
            for group_id in offsets
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest(OffsetRequest):
    """Commit what was processed, unless the group was used meanwhile. Committing twice is committing once.

    :param change: the group's offsets when the work began, and those to commit.
    :param kafka_cluster_id: the cluster that the work read.
    :param source: what says so, for messages.
    """

    what: ClassVar[str] = "commit"
    continues: ClassVar[bool] = False
    """The change itself says what was there."""
    change: Change
    kafka_cluster_id: str | None
    source: str

    @property
    def may_be_absent(self) -> bool:
        """Whether a group that does not exist is created: it had no offset before, either."""
        return not self.change.before

    async def propose(self, admin: MaintenanceClient, layout: Layout, earlier: Earlier = first_try) -> list[Change]:
        """Return the change, to which nothing is left to do where an earlier try has committed.

        Raises ``MaintenanceError`` for another cluster.
        """
        here = await admin.cluster_id()
        if here is None or self.kafka_cluster_id != here:
            raise MaintenanceError(
                f"{self.source} is of Kafka cluster {self.kafka_cluster_id!r}, and this connection leads to {here!r}: "
                "nothing was committed. Give the connection of the cluster that was read"
            )
        change = self.change
        now = (await commits_of(admin, [change.group_id]))[change.group_id]
        done = {**change.before, **change.after}
        if isinstance(now, Unread):
            return [change]
        if now.keys() == done.keys() and all(is_same(now[where], value) for where, value in done.items()):
            change = replace(change, before=now)
        return [change]


class Existing(StrEnum):
    """What a copy does with a partition of which the target has a commit."""

    KEEP = "keep"
    REPLACE = "replace"
    LOWER = "lower"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRequest(OffsetRequest):
    """Copy committed offsets to other groups of the cluster, which may not exist yet. Sources may have members.

    :param groups: the target of each source.
    :param topics: only these topics. Default: all topics with a commit.
    :param existing: what happens where a target has a commit: ``"keep"`` it (default), ``"replace"`` it, or take the
        ``"lower"`` of both.

    Raises ``ConfigurationError`` for a group that is a source and a target, or the target of two.
    """

    what: ClassVar[str] = "copy"
    groups: Mapping[str, str]
    topics: Sequence[str] | None = None
    existing: str = "keep"

    def __post_init__(self) -> None:
        check_group_ids([*self.groups, *self.groups.values()])
        seen = set[str]()
        for target in self.groups.values():
            if target in self.groups or target in seen:
                why = "is a source and a target" if target in self.groups else "is the target of two groups"
                raise ConfigurationError("groups", target, f"{why}: name each group once")
            seen.add(target)

    async def propose(self, admin: MaintenanceClient, layout: Layout, earlier: Earlier = first_try) -> list[Change]:
        """Return the changes that would give the targets what the sources have."""
        is_chosen = in_topics(self.topics)
        found = await commits_of(admin, list(self.groups), "the offsets of the source cannot be read", shares=False)
        copied: dict[str, Commits] = {}
        why_none: dict[str, str] = {}
        for source, target in self.groups.items():
            copied[target], why_none[target] = {}, f"{source!r} has no committed offsets to copy"
            if isinstance(commits := found[source], Unread):
                why_none[target] = commits
            else:
                copied[target] = {at: of for at, of in commits.items() if is_chosen(at)}
        return await propose_commits(admin, copied, why_none, Existing(self.existing))


async def propose_commits(
    admin: MaintenanceClient,
    commits: Mapping[str, Commits],
    why_none: Mapping[str, str],
    existing: Existing,
    *,
    must_fit: bool = False,
    as_new: bool = False,
) -> list[Change]:
    """Return the changes that would give groups these commits, with their metadata; nothing is written.

    :param commits: what each group is to have.
    :param why_none: why a group gets nothing, for those without any.
    :param must_fit: leave out an offset outside the log. Default false: it is moved to the nearer end.
    :param as_new: as if none of the groups existed. Default false.
    """
    wanted, ends = await _read(admin, list(commits), lambda target, _: list(commits[target]), as_new=as_new)

    def offset(target: str, where: TopicPartition, start: int, end: int, before: int | None) -> int | str:
        given = commits[target][where].offset
        if must_fit and not start <= given <= end:
            return f"offset {given:,} is outside the log, {start:,} to {end:,}"
        if before is None or existing is Existing.REPLACE:
            return given
        if existing is Existing.KEEP and before != given:
            return f"the group has committed {before:,} there, and the source {given:,}"
        return min(before, given)

    changes = []
    for target, given in commits.items():
        before, partitions, kept = wanted[target]
        if not given and (isinstance(why_none[target], Unread) or not isinstance(kept, Unread)):
            kept = why_none[target]
        change = _propose(target, before, partitions, kept, ends, partial(offset, target))
        if kept is None and not change.after and unread_of(change.skipped.values()) is None:
            change = replace(change, kept=f"nothing is left to copy: {next(iter(change.skipped.values()))}")
        exact = {where: given[where] for where, new in change.after.items() if new.offset == given[where].offset}
        changes.append(replace(change, after={**change.after, **exact}))
    return changes


_Wanted = dict[str, tuple[Commits, list[TopicPartition], str | None]]


async def _read(
    admin: MaintenanceClient,
    group_ids: Sequence[str],
    chosen: Callable[[str, Commits], list[TopicPartition]],
    *,
    as_new: bool = False,
) -> tuple[_Wanted, Ends]:
    wanted: _Wanted = {}
    found: Mapping[str, Commits | Unread] = {group_id: {} for group_id in group_ids}
    for group_id, before in (found if as_new else await commits_of(admin, group_ids)).items():
        if isinstance(before, Unread):
            wanted[group_id] = ({}, [], before)
            continue
        partitions = chosen(group_id, before)
        wanted[group_id] = (before, partitions, None if partitions else "it has no committed offsets there")
    return wanted, await log_ends(admin, (where for _, partitions, _ in wanted.values() for where in partitions))


def _propose(
    group_id: str,
    before: Commits,
    partitions: list[TopicPartition],
    kept: str | None,
    ends: Ends,
    offset: Callable[[TopicPartition, int, int, int | None], int | str],
) -> Change:
    after: dict[TopicPartition, OffsetAndMetadata] = {}
    skipped: dict[TopicPartition, str] = {}
    skips = rereads = 0
    for where in partitions:
        found = ends[where]
        if isinstance(found, str):
            skipped[where] = found
            continue
        start, end = found
        committed = before.get(where)
        new = offset(where, start, end, None if committed is None else committed.offset)
        if isinstance(new, str):
            skipped[where] = new
            continue
        new = min(max(new, start), end)
        if committed is None or committed.offset != new:
            after[where] = OffsetAndMetadata(new)
        else:
            after[where] = committed
        if committed is not None:  # where it reads on without a commit is up to its consumers
            reads_on = min(max(committed.offset, start), end)
            skips += max(new - reads_on, 0)
            rereads += max(reads_on - new, 0)
    if kept is None and not after:
        kept = "it cannot be changed: the logs of its partitions cannot be read"
        kept = kept if unread_of(skipped.values()) is None else Unread(kept)
    return Change(
        group_id=group_id, before=before, after=after, skipped=skipped, kept=kept, skips=skips, rereads=rereads
    )
