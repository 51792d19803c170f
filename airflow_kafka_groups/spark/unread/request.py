"""What is asked for, and the group as it is, on the brokers or in a snapshot: its state, its commits, and the unread.

``GroupOffsetsToSparkOperator`` writes the file of a group's fetched offsets; docs/formats.md specifies it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_groups.exceptions import ArgumentError, JobError
from airflow_kafka_groups.kafka.models import GroupState
from airflow_kafka_groups.observe.offset_values import Commit, Commits, Partition
from airflow_kafka_groups.spark.unread.commit import Observed, OffsetsClient, moved, why_not_free
from airflow_kafka_groups.spark.unread.ranges import Backlog, BacklogPolicy, plan_backlog
from airflow_kafka_groups.storage.formats import check_format
from airflow_kafka_groups.storage.paths import topic_remedy

_SHOWN = 20


def commits_in_snapshot(
    rows: Iterable[Mapping[str, Any]], group_ids: Collection[str]
) -> dict[str, dict[Partition, Commit]]:
    """Return the commits of these groups from a snapshot's rows.

    :param rows: all that the snapshot has of these groups.
    :param group_ids: the groups; each must be in the snapshot, readable and without members.

    Raises ``JobError`` naming the groups for which this is not so.
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
    """The fetched offsets of one group.

    :param ends: the log ends at that time, up to which the job reads.
    """

    backlog_id: str
    kafka_cluster_id: str | None
    group_id: str
    committed: Commits
    ends: Mapping[Partition, int]


def parse_fetched(text: str, path: str) -> FetchedOffsets:
    """Parse the file. Raises ``ArgumentError`` naming the file if it differs from docs/formats.md."""
    try:
        content = json.loads(text)
        check_format(content)
        committed: dict[Partition, Commit] = {}
        ends: dict[Partition, int] = {}
        for row in content["partitions"]:
            where = Partition(_text(row["topic"]), _count(row["partition"]))
            if where in committed:
                raise ValueError(f"it names {where} twice")
            epoch = None if row["leader_epoch"] is None else _count(row["leader_epoch"])
            committed[where] = Commit(_count(row["committed_offset"]), epoch, row["metadata"] or "")
            if row["log_end"] is not None:
                ends[where] = _count(row["log_end"])
        return FetchedOffsets(
            backlog_id=_text(content["backlog_id"]),
            kafka_cluster_id=content["kafka_cluster_id"],
            group_id=_text(content["group_id"]),
            committed=committed,
            ends=ends,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        remedy = f"it is not what GroupOffsetsToSparkOperator writes ({type(exc).__name__}: {exc}): fetch them again"
        raise ArgumentError("--backlog", path, remedy) from exc


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogRequest:
    """The group whose backlog is processed, and how it is read.

    :param topics: only these topics; none (default) for all in which the group has commits.
    :param fetched: offsets fetched before: the group must be unchanged, and their log ends limit the read.
    :param policy: what to do when the offsets do not determine the range. By default the work stops.
    :param isolation_level: ``read_committed`` (default) or ``read_uncommitted``.
    :param commit: commit after each slice. Default true.
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
        if self.isolation_level not in ISOLATION_LEVELS:
            remedy = f"give one of {', '.join(ISOLATION_LEVELS)}"
            raise ArgumentError("--isolation-level", self.isolation_level, remedy)
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


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"{value!r} is not a string")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"{value!r} is not an integer of at least 0")
    return value
