"""A group whose unread records are processed: what is asked for, its state and commits, and commits for it.

Any doubt prevents a commit: the group is Empty (or does not exist, if it did not before), its commits equal those at
the start of the work, and the new offsets, which brokers refuse while it has members, are read back.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from airflow_kafka_groups.exceptions import ArgumentError, JobError
from airflow_kafka_groups.kafka.models import GroupState
from airflow_kafka_groups.observe.offset_values import Commit, Commits, LogEnds, Partition
from airflow_kafka_groups.spark.unread.ranges import Backlog, BacklogPolicy, plan_backlog
from airflow_kafka_groups.storage.formats import check_format, read_model
from airflow_kafka_groups.storage.paths import topic_remedy


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
        """Return the commits of these partitions, without those that have none.

        Raises ``JobError`` if any cannot be read.
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

        :param deadline: until when the request may leave, by ``time.monotonic()``. Raises ``TooLateError`` after that.
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


_SHOWN = 20


def commits_in_snapshot(
    rows: Iterable[Mapping[str, Any]], group_ids: Collection[str]
) -> dict[str, dict[Partition, Commit]]:
    """Return the commits of these groups from all rows that a snapshot has of them.

    Raises ``JobError`` naming those that it lacks, could not read, or that were in use.
    """
    found: dict[str, dict[Partition, Commit]] = {}
    doubts: dict[str, str] = {}
    for row in rows:
        commits = found.setdefault(row["group_id"], {})
        if row["error"] is not None:
            doubts[row["group_id"]] = f"could not be read ({row['error']})"
        elif row["state"] != GroupState.EMPTY:
            doubts[row["group_id"]] = f"was {row['state']}, not Empty"
        elif row["topic"] is not None:
            where, commit = Partition(row["topic"], row["partition"]), Commit(row["committed_offset"])
            if None in (row["partition"], row["committed_offset"]):
                doubts[row["group_id"]] = f"has a row of {where.topic} without a partition or an offset"
            elif commits.setdefault(where, commit) != commit:
                offsets = f"{commits[where].offset} and {commit.offset}"
                doubts[row["group_id"]] = f"is there twice, with {where} committed at {offsets}"
    doubts |= {group_id: "is not in the snapshot" for group_id in group_ids if group_id not in found}
    if doubts:
        shown = "; ".join(f"group {group_id!r} {why}" for group_id, why in sorted(doubts.items())[:_SHOWN])
        raise JobError(f"{shown}: nothing was archived. Take a new snapshot, or leave such groups out")
    return found


ISOLATION_LEVELS = ("read_committed", "read_uncommitted")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedOffsets:
    """The fetched offsets of one group, and the log ends at that time, up to which the job reads."""

    backlog_id: str
    kafka_cluster_id: str | None
    group_id: str
    committed: Commits
    ends: Mapping[Partition, int]


class _Row(NamedTuple):
    topic: str
    partition: int
    committed_offset: int
    leader_epoch: int | None
    metadata: str | None
    log_end: int | None


class _File(NamedTuple):
    backlog_id: str
    kafka_cluster_id: str | None
    group_id: str
    partitions: tuple[_Row, ...]


def parse_fetched(text: str, path: str) -> FetchedOffsets:
    """Parse the file. Raises ``ArgumentError`` naming the file if it differs from docs/formats.md."""
    try:
        content = json.loads(text)
        check_format(content)
        file = read_model(_File, content)
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        remedy = f"it is not what GroupOffsetsToSparkOperator writes ({type(exc).__name__}: {exc}): fetch them again"
        raise ArgumentError("--backlog", path, remedy) from exc
    rows = {Partition(row.topic, row.partition): row for row in file.partitions}
    return FetchedOffsets(
        backlog_id=file.backlog_id,
        kafka_cluster_id=file.kafka_cluster_id,
        group_id=file.group_id,
        committed={
            where: Commit(row.committed_offset, row.leader_epoch, row.metadata or "") for where, row in rows.items()
        },
        ends={where: row.log_end for where, row in rows.items() if row.log_end is not None},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogRequest:
    """The group whose backlog is processed, and how it is read.

    :param topics: only these topics; none (default) for all in which the group has commits.
    :param fetched: offsets fetched before: the group must be unchanged, and their log ends limit the read.
    :param policy: what to do when the offsets do not determine the range. By default the work stops.
    :param max_records_per_slice: the most offsets that are processed and committed at once. Default 0: all.
    :param start_over: begin at the group's commits, even if an earlier run has not ended. Default false.
    """

    group_id: str
    topics: frozenset[str] = frozenset()
    fetched: FetchedOffsets | None = None
    policy: BacklogPolicy = field(default_factory=BacklogPolicy)
    isolation_level: str = "read_committed"
    commit: bool = True
    max_records_per_slice: int = 0
    start_over: bool = False

    def __post_init__(self) -> None:
        if self.fetched is not None and self.fetched.group_id != self.group_id:
            raise ArgumentError("--group", self.group_id, f"the fetched offsets are of {self.fetched.group_id!r}")
        if self.max_records_per_slice < 0:
            raise ArgumentError("--max-records-per-slice", self.max_records_per_slice, "give 0 or more")

    def identity(self) -> dict[str, Any]:
        """Return what a run must have in common with this request to be continued by it."""
        return {
            "group_id": self.group_id,
            "topics": sorted(self.topics),
            "backlog_id": self.fetched.backlog_id if self.fetched else None,
            "isolation_level": self.isolation_level,
            "commit": self.commit,
        }


def look(admin: OffsetsClient, request: BacklogRequest) -> Observed:
    """Return the state of the group. Raises ``JobError`` if it is in use."""
    group_id = request.group_id
    known = admin.known(group_id)
    topics = {where.topic for where in known}
    if not (request.topics or topics):
        raise JobError(f"group {group_id!r} has no commits to be seen: name its topics by --topic, or check its name")
    there = frozenset(admin.partitions(sorted(request.topics | topics)))
    for topic in sorted(request.topics - {where.topic for where in there} - topics):
        raise ArgumentError("--topic", topic, topic_remedy(topic) or "there is no such topic: check its name")
    observed = Observed(group_id=group_id, existing=there, committed=admin.committed(group_id, known | there))
    if reason := why_not_free(admin, observed):
        raise JobError(reason)
    return observed


def plan(admin: OffsetsClient, request: BacklogRequest, observed: Observed) -> Backlog:
    """Return what the group has not read. Raises ``JobError`` if it moved since its offsets were fetched."""
    fetched = request.fetched
    if fetched is not None and (differ := moved(fetched.committed, observed.committed)):
        raise JobError(
            f"group {observed.group_id!r} moved since its offsets were fetched, in {len(differ)} partition(s): "
            f"{differ[0]}. Fetch them again"
        )
    chosen = {where for where in observed.partitions if not request.topics or where.topic in request.topics}
    readable = chosen & observed.existing
    logs = admin.log_ends(readable, read_committed=False)
    stable = admin.log_ends(readable, read_committed=True) if request.isolation_level == "read_committed" else {}
    return plan_backlog(
        {where: commit for where, commit in observed.committed.items() if where in chosen},
        logs,
        request.policy,
        until=fetched.ends if fetched is not None else {},
        stable={where: log.end for where, log in stable.items()},
        missing=chosen - readable,
    )
