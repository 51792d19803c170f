"""What is asked for, and the group as it is: its state, its commits, and what it has not read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_groups.spark.backlog.commit import Observed, moved, why_not_free
from airflow_kafka_groups.spark.backlog.file import FetchedOffsets
from airflow_kafka_groups.spark.backlog.ranges import Backlog, BacklogPolicy, plan_backlog
from airflow_kafka_groups.spark.errors import ArgumentError, JobError
from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
from airflow_kafka_groups.spark.kafka.offsets import Partition
from airflow_kafka_groups.spark.kafka.reader import ISOLATION_LEVELS


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A group that is not in use.

    :param chosen: the partitions of the topics that were asked for.
    """

    observed: Observed
    chosen: frozenset[Partition]
    existing: frozenset[Partition]


def look(admin: KafkaAdmin, request: BacklogRequest) -> Look:
    """Return the state of the group. Raises ``JobError`` if it is in use."""
    group_id = request.group_id
    known = admin.known(group_id)
    topics = set(request.topics) or {where.topic for where in known}
    if not topics:
        raise JobError(f"group {group_id!r} has no commits to be seen: name its topics by --topic, or check its name")
    existing = admin.partitions(sorted(topics | {where.topic for where in known}))
    for topic in sorted(topics - existing.keys() - {where.topic for where in known}):
        raise ArgumentError("--topic", topic, "there is no such topic: check its name")
    there = {where for partitions in existing.values() for where in partitions}
    everything = frozenset(known | there)
    observed = Observed(group_id=group_id, partitions=everything, committed=admin.committed(group_id, everything))
    if reason := why_not_free(group_id, admin.state(group_id), exists=bool(observed.committed)):
        raise JobError(reason)
    chosen = frozenset(where for where in everything if where.topic in topics)
    return Look(observed=observed, chosen=chosen, existing=frozenset(there))


def plan(admin: KafkaAdmin, request: BacklogRequest, found: Look) -> Backlog:
    """Return what the group has not read. Raises ``JobError`` if it moved since its offsets were fetched."""
    fetched, observed = request.fetched, found.observed
    if fetched is not None and (differ := moved(fetched.committed, observed.committed)):
        raise JobError(
            f"group {observed.group_id!r} moved since its offsets were fetched, in {len(differ)} partition(s): "
            f"{differ[0]}. Fetch them again"
        )
    readable = found.chosen & found.existing
    logs = admin.log_ends(readable, read_committed=False)
    until = dict(fetched.ends) if fetched is not None else {}
    if request.isolation_level == "read_committed":
        for where, log in admin.log_ends(readable, read_committed=True).items():
            until[where] = min(log.end, until.get(where, log.end))
    return plan_backlog(
        {where: commit for where, commit in observed.committed.items() if where in found.chosen},
        logs,
        request.policy,
        until=until,
        missing=found.chosen - readable,
    )


def check_cluster(fetched: FetchedOffsets | None, cluster_id: str) -> None:
    """Raise ``JobError`` if the offsets were fetched from another cluster."""
    if fetched is not None and fetched.kafka_cluster_id not in (None, cluster_id):
        raise JobError(
            f"the offsets were fetched from the cluster {fetched.kafka_cluster_id}, and the Kafka properties lead to "
            f"{cluster_id}: use the properties of the same connection"
        )
