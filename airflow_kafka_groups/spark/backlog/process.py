"""Processing of exactly the unread records of a group, followed by a commit: the library of ``process_group_backlog``.

In a notebook or an application of your own::

    summary = process_backlog(spark, load_properties(spark, "kafka.properties"), "orders", my_function)

1. *Look*: the group must not be in use; its commits and the log ends define what to read (``ranges.py``).
2. *Read and process*: one bounded DataFrame is passed to the function. If it raises, nothing is committed.
3. *Commit*: only if the group was not used meanwhile (``commit.py``).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.spark.backlog.commit import (
    Observed,
    commit_backlog,
    moved,
    offsets_to_commit,
    why_not_free,
)
from airflow_kafka_groups.spark.backlog.file import FetchedOffsets, commit_rows
from airflow_kafka_groups.spark.backlog.ranges import Backlog, BacklogPolicy, plan_backlog
from airflow_kafka_groups.spark.errors import ArgumentError, JobError
from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
from airflow_kafka_groups.spark.kafka.offsets import Commit, Partition
from airflow_kafka_groups.spark.kafka.properties import KafkaProperties
from airflow_kafka_groups.spark.kafka.reader import ISOLATION_LEVELS, read_ranges

Handler = Callable[[DataFrame], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogRequest:
    """The group whose backlog is processed, and how it is read.

    :param group_id: the group.
    :param topics: only these topics; none (default) for all in which the group has commits.
    :param fetched: offsets fetched before: the group must be unchanged, and their log ends limit the read.
    :param policy: what to do when the offsets do not determine the range. By default the work stops.
    :param isolation_level: ``read_committed`` (default) or ``read_uncommitted``.
    :param commit: commit afterwards. Default true.
    """

    group_id: str
    topics: frozenset[str] = frozenset()
    fetched: FetchedOffsets | None = None
    policy: BacklogPolicy = field(default_factory=BacklogPolicy)
    isolation_level: str = "read_committed"
    commit: bool = True

    def __post_init__(self) -> None:
        if self.isolation_level not in ISOLATION_LEVELS:
            remedy = f"give one of {', '.join(ISOLATION_LEVELS)}"
            raise ArgumentError("--isolation-level", self.isolation_level, remedy)
        if self.fetched is not None and self.fetched.group_id != self.group_id:
            raise ArgumentError("--group", self.group_id, f"the fetched offsets are of {self.fetched.group_id!r}")


def process_backlog(
    spark: SparkSession,
    properties: KafkaProperties,
    request: BacklogRequest | str,
    handle: Handler,
    *,
    options: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Pass the unread records to a function, and commit when it returns; return the summary.

    :param spark: the session; it must have the Kafka connector.
    :param properties: the connection to the cluster.
    :param request: the request; a group id means all its topics.
    :param handle: takes the records as returned by Spark's Kafka source, and must run at least one Spark job on them.
    :param options: further options of Spark's Kafka source.

    Raises whatever the function raises, without a commit, ``NotCommittedError`` if the records are processed but the
    group was used meanwhile, and ``JobError`` for all problems noticed before.
    """
    asked = BacklogRequest(group_id=request) if isinstance(request, str) else request
    started = time.monotonic()
    with KafkaAdmin(spark, properties) as admin:
        if asked.commit and (reason := properties.why_unchangeable(asked.group_id)):
            raise JobError(f"{reason}, so nothing can be committed: nothing was read")
        cluster_id = admin.cluster_id()
        observed, backlog = look(admin, asked, cluster_id)
        if backlog.ranges:
            records = read_ranges(
                spark, properties, backlog.ranges, isolation_level=asked.isolation_level, options=options
            )
            _run(spark, handle, records)
        wanted = offsets_to_commit(backlog, observed.committed)
        committed = commit_backlog(admin, observed, backlog) if asked.commit else {}
    return {
        "group_id": asked.group_id,
        "kafka_cluster_id": cluster_id,
        **backlog.counts(),
        "before": commit_rows(observed.committed),
        "ends": [
            {"topic": where.topic, "partition": where.partition, "offset": end} for where, end in backlog.ends.items()
        ],
        "to_commit": commit_rows({where: Commit(offset) for where, offset in wanted.items()}),
        "committed": len(committed),
        "seconds": round(time.monotonic() - started, 1),
    }


def look(admin: KafkaAdmin, request: BacklogRequest, cluster_id: str) -> tuple[Observed, Backlog]:
    """Return the state of the group and its unread ranges. Raises ``JobError`` if it is in use.

    :param admin: a client.
    :param request: the request.
    :param cluster_id: the id of the client's cluster.
    """
    _check_cluster(request.fetched, cluster_id)
    group_id = request.group_id
    known = admin.known(group_id)
    topics = set(request.topics) or {where.topic for where in known}
    if not topics:
        raise JobError(f"group {group_id!r} has no commits to be seen: name its topics by --topic, or check its name")
    existing = admin.partitions(sorted(topics | {where.topic for where in known}))
    for topic in sorted(topics - existing.keys() - {where.topic for where in known}):
        raise ArgumentError("--topic", topic, "there is no such topic: check its name")
    there = {where for partitions in existing.values() for where in partitions}
    everything = known | there
    observed = Observed(
        group_id=group_id, partitions=frozenset(everything), committed=admin.committed(group_id, everything)
    )
    if reason := why_not_free(group_id, admin.state(group_id), exists=bool(observed.committed)):
        raise JobError(reason)
    _check_unmoved(request.fetched, observed)
    backlog = _plan(admin, request, {where for where in everything if where.topic in topics}, there, observed)
    return observed, backlog


def _plan(
    admin: KafkaAdmin,
    request: BacklogRequest,
    chosen: set[Partition],
    existing: Collection[Partition],
    observed: Observed,
) -> Backlog:
    readable = chosen & set(existing)
    logs = admin.log_ends(readable, read_committed=False)
    until = dict(request.fetched.ends) if request.fetched is not None else {}
    if request.isolation_level == "read_committed":
        for where, log in admin.log_ends(readable, read_committed=True).items():
            until[where] = min(log.end, until.get(where, log.end))
    return plan_backlog(
        {where: commit for where, commit in observed.committed.items() if where in chosen},
        logs,
        request.policy,
        until=until,
        missing=chosen - readable,
    )


def _check_cluster(fetched: FetchedOffsets | None, cluster_id: str) -> None:
    if fetched is not None and fetched.kafka_cluster_id not in (None, cluster_id):
        raise JobError(
            f"the offsets were fetched from the cluster {fetched.kafka_cluster_id}, and the Kafka properties lead to "
            f"{cluster_id}: use the properties of the same connection"
        )


def _check_unmoved(fetched: FetchedOffsets | None, observed: Observed) -> None:
    if fetched is not None and (differ := moved(fetched.committed, observed.committed)):
        raise JobError(
            f"group {observed.group_id!r} moved since its offsets were fetched, in {len(differ)} partition(s): "
            f"{differ[0]}. Fetch them again"
        )


def _run(spark: SparkSession, handle: Handler, records: DataFrame) -> None:
    """Call the function. Without a Spark job it cannot have read or processed any record."""
    context = spark.sparkContext
    job_group = f"backlog-{uuid.uuid4().hex[:8]}"
    context.setJobGroup(job_group, "process the backlog of a consumer group")
    try:
        handle(records)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    if not context.statusTracker().getJobIdsForGroup(job_group):
        raise JobError(
            "the transform ran no Spark job, so it read nothing: return the DataFrame (with --output), or write it "
            "within the transform. Nothing was committed"
        )
