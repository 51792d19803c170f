"""Commits of processed offsets, only if the group was not used meanwhile; any doubt prevents the commit.

The steps: the group is Empty (or does not exist, if it did not before), its commits equal those at the start of the
work, the new offsets are committed (brokers refuse this while the group has members), and are read back.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.observe.offset_values import Commit, Commits, LogEnds, Partition


class TooLateError(JobError):
    """A commit did not leave in time, and so was not sent."""


class GroupStatus(NamedTuple):
    """The state of a group, ``DEAD`` if it does not exist, and the number of its members."""

    state: str
    members: int


class OffsetsClient(Protocol):
    """A client that reads a group and commits for it. Each call may raise ``JobError``."""

    def state(self, group_id: str) -> GroupStatus:
        """Describe the group; a group that does not exist is ``DEAD``."""
        ...

    def known(self, group_id: str) -> set[Partition]:
        """Return the partitions in which the group has commits visible to this user."""
        ...

    def committed(self, group_id: str, partitions: Iterable[Partition]) -> dict[Partition, Commit]:
        """Return the commits of these partitions; partitions without a commit are omitted.

        Raises ``JobError`` if any cannot be read, e.g. because of an open transaction.
        """
        ...

    def partitions(self, topics: Collection[str]) -> set[Partition]:
        """Return all partitions of these topics; topics that do not exist have none."""
        ...

    def log_ends(self, partitions: Iterable[Partition], *, read_committed: bool = True) -> dict[Partition, LogEnds]:
        """Return the log start and end of each partition, the end before the first open transaction by default."""
        ...

    def alter(self, group_id: str, offsets: Mapping[Partition, int], deadline: float) -> None:
        """Commit offsets for a group without members; brokers refuse it for others.

        :param deadline: until when the request may leave, retries included, by ``time.monotonic()``: the group was read
            before, and somebody else may commit meanwhile.

        Raises ``TooLateError`` if that has passed.
        """
        ...


_COMMIT_WITHIN_S = 15.0
"""How long after the last reading of the group began its commit may leave: somebody else may commit meanwhile."""


class NotCommittedError(JobError):
    """The offsets were not committed although the records are processed; the message says why."""

    exit_code = 3


class NotVerifiedError(JobError):
    """The commit was sent, and cannot be read back, or reads differently: the message says how."""

    exit_code = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The state of a group before the work began.

    :param existing: every partition of the topics in which it has, or will have, commits.
    :param committed: the commits found in them, and in partitions that do not exist any more.
    """

    group_id: str
    existing: frozenset[Partition]
    committed: Commits

    @property
    def partitions(self) -> frozenset[Partition]:
        """All these partitions."""
        return self.existing | self.committed.keys()


def why_not_free(admin: OffsetsClient, observed: Observed) -> str | None:
    """Return why the group's offsets must not be committed; ``None`` if it is unused now."""
    state, members = admin.state(observed.group_id)
    if members:
        return f"group {observed.group_id!r} has {members} member(s): stop its consumers first"
    if state == "EMPTY" or (state == "DEAD" and not observed.committed):
        return None
    return f"group {observed.group_id!r} is in the state {state.capitalize()}, not Empty"


def moved(before: Commits, now: Commits) -> list[str]:
    """Return the differences between two readings of a group's commits, for messages."""
    return [
        f"{where}: {_offset(before.get(where))} then, {_offset(now.get(where))} now"
        for where in sorted(before.keys() | now.keys())
        if before.get(where) != now.get(where)
    ]


def offsets_to_commit(ends: Mapping[Partition, int], committed: Commits) -> dict[Partition, int]:
    """Return the offsets that differ from the committed ones."""
    return {where: end for where, end in ends.items() if where not in committed or committed[where].offset != end}


def commit_ends(admin: OffsetsClient, observed: Observed, ends: Mapping[Partition, int]) -> dict[Partition, int]:
    """Commit the ends of what was processed; return the committed offsets.

    :param observed: the group before: it must not have changed.
    :param ends: the offsets up to which each partition is processed.

    Raises ``NotCommittedError`` if nothing is committed, ``NotVerifiedError`` if that is not known.
    """
    group_id = observed.group_id
    wanted = offsets_to_commit(ends, observed.committed)
    if not wanted:
        return {}
    deadline = time.monotonic() + _COMMIT_WITHIN_S
    _check_unused(admin, observed)
    problem: JobError | None = None
    try:
        admin.alter(group_id, wanted, deadline)
    except TooLateError as exc:  # this process may have stood still, and another one taken its place
        raise NotCommittedError(f"nothing was committed: {exc}") from exc
    except JobError as exc:  # a lost answer leaves it open: what the group has now decides
        problem = exc
    try:
        now = admin.committed(group_id, set(wanted))
    except JobError as exc:
        raise NotVerifiedError(f"the commit was sent, but it cannot be read back: {problem or exc}") from exc
    differ = offsets_to_commit(wanted, now)
    if not differ:
        return wanted
    if problem is not None and not moved({w: c for w, c in observed.committed.items() if w in wanted}, now):
        raise NotCommittedError(f"nothing was committed: {problem}") from problem
    where = min(differ)
    raise NotVerifiedError(
        f"{where} of group {group_id!r} was committed at {wanted[where]} and reads {_offset(now.get(where))}: "
        + (f"only a part is committed, because {problem}" if problem else "somebody else commits for this group")
    ) from problem


def _check_unused(admin: OffsetsClient, observed: Observed) -> None:
    group_id = observed.group_id
    try:
        reason = why_not_free(admin, observed)
        now = admin.committed(group_id, admin.known(group_id) | observed.partitions)
    except JobError as exc:
        raise NotCommittedError(f"nothing was committed: {exc}") from exc
    if reason is not None:
        raise NotCommittedError(f"nothing was committed: {reason}")
    if differ := moved(observed.committed, now):
        raise NotCommittedError(
            f"nothing was committed: group {group_id!r} moved meanwhile in {len(differ)} partition(s): {differ[0]}"
        )


def _offset(commit: Commit | None) -> str:
    return "no commit" if commit is None else str(commit.offset)
