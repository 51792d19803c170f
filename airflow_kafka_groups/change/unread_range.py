"""The unread range of a group, fixed once for a DAG run, and committed when the work on it has succeeded.

A task that is retried or cleared gets the range that it had before. Committing twice is committing once.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from airflow_kafka_groups.change.restore.current_logs import why_kept
from airflow_kafka_groups.change.restore.reset import CommitRequest
from airflow_kafka_groups.exceptions import FileExistsAlreadyError, MaintenanceError
from airflow_kafka_groups.kafka.models import OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.ledger.proposed_changes import Change, Commits, commits_in, partition_name
from airflow_kafka_groups.observe.log_ends import Unread, log_ends
from airflow_kafka_groups.observe.offset_values import Commit, LogEnds, Partition
from airflow_kafka_groups.observe.patterns import check_group_ids
from airflow_kafka_groups.observe.readings import read_groups
from airflow_kafka_groups.spark.unread.ranges import BacklogPolicy, plan_backlog
from airflow_kafka_groups.storage.access import unless_damaged
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.formats import FORMAT, plain, read_model
from airflow_kafka_groups.storage.json_files import json_bytes, read_json
from airflow_kafka_groups.storage.layout import Layout, StoragePath
from airflow_kafka_groups.storage.paths import BACKLOGS, time_prefix

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient


_WHAT = "the unread range"


class PartitionRange(NamedTuple):
    """The offsets ``[start, end)`` of one partition; none where both are the same."""

    topic: str
    partition: int
    start: int
    end: int


class _Committed(NamedTuple):
    topic: str
    partition: int
    offset: int
    leader_epoch: int | None
    metadata: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadRange:
    """What a group has not read, and what its offsets were when that was fixed.

    :param task_run: names the task run that fixed it.
    :param ranges: one for each partition whose offset is committed afterwards.
    :param before: all committed offsets of the group.
    :param topic_ids: the ids of the topics, where they have one.
    """

    task_run: str
    group_id: str
    kafka_cluster_id: str
    ranges: tuple[PartitionRange, ...]
    before: tuple[_Committed, ...]
    topic_ids: Mapping[str, str]

    @property
    def offsets(self) -> int:
        """The number of offsets; compaction and transactions leave some without a record."""
        return sum(each.end - each.start for each in self.ranges)

    def to_commit(self) -> CommitRequest:
        """Return the commit of what was read."""
        before = {
            TopicPartition(each.topic, each.partition): OffsetAndMetadata(each.offset, each.metadata, each.leader_epoch)
            for each in self.before
        }
        ends = {TopicPartition(each.topic, each.partition): OffsetAndMetadata(each.end) for each in self.ranges}
        moved = {at: end for at, end in ends.items() if at not in before or before[at].offset != end.offset}
        change = Change(group_id=self.group_id, before=before, after=moved, topic_ids=self.topic_ids)
        return CommitRequest(change=change, kafka_cluster_id=self.kafka_cluster_id, source="the range")


def range_path(layout: Layout, task_run: str, due: datetime) -> StoragePath:
    """Return the file of a task run's range, by the time when its DAG run was due: the same for each try."""
    digest = hashlib.sha256(task_run.encode()).hexdigest()[:8]
    return layout.root / BACKLOGS / f"{time_prefix(due)}-{digest}.json"


def read_range(path: StoragePath) -> UnreadRange:
    """Read a range. Raises ``MaintenanceError`` for one that is missing or damaged, and ``StorageError``."""
    content = read_json(path, _WHAT, MaintenanceError)
    with unless_damaged(MaintenanceError, f"{_WHAT} in {path}"):
        found = read_model(UnreadRange, content)
    return found


async def fix_range(
    admin: MaintenanceClient,
    path: StoragePath,
    task_run: str,
    group_id: str,
    *,
    topics: Sequence[str] | None = None,
    policy: BacklogPolicy | None = None,
) -> UnreadRange:
    """Fix what a group has not read, up to the end of the log, or return what the same task run fixed before.

    :param path: its file, see ``range_path``.
    :param topics: the topics. Default: those with a commit.
    :param policy: what to do where the offsets do not determine the range. Default: fail.

    Raises ``MaintenanceError`` for a group that has members, cannot be read, or has no topic; ``JobError`` for what the
    policy does not decide; and ``StorageError``.
    """
    check_group_ids([group_id])
    if await asyncio.to_thread(FILES.read, path) is None:
        found = await _fix(admin, task_run, group_id, topics, policy or BacklogPolicy())
        # Exclusively: where two tries meet, both work on the range of the first.
        with suppress(FileExistsAlreadyError):
            await asyncio.to_thread(FILES.create, path, json_bytes({"format": FORMAT, **plain(found)}))
    stored = await asyncio.to_thread(read_range, path)
    if (stored.task_run, stored.group_id) != (task_run, group_id):
        raise MaintenanceError(
            f"{path} is the range of group {stored.group_id!r} and task {stored.task_run}, not of {group_id!r} and "
            f"{task_run}: start a new DAG run"
        )
    return stored


async def _fix(
    admin: MaintenanceClient, task_run: str, group_id: str, topics: Sequence[str] | None, policy: BacklogPolicy
) -> UnreadRange:
    cluster_id = await admin.cluster_id()
    if cluster_id is None:
        raise MaintenanceError("the brokers do not say the id of their cluster yet: try again")
    before = await _commits_of_unused(admin, group_id)
    wanted = list(topics or dict.fromkeys(where.topic for where in before))
    if not wanted:
        raise MaintenanceError(f"group {group_id!r} has no committed offsets: name the topics that it is to read")
    ids = await admin.topic_ids(wanted)
    committed = {where: value for where, value in before.items() if where.topic in wanted}
    there = await _partitions(admin, wanted)
    ends = await log_ends(admin, there)
    if unread := [f"{partition_name(where)}: {why}" for where, why in ends.items() if isinstance(why, str)]:
        raise MaintenanceError(f"what group {group_id!r} has not read is not known. {unread[0]}")
    backlog = plan_backlog(
        {Partition(*where): Commit(value.offset) for where, value in committed.items()},
        {Partition(*where): LogEnds(*bounds) for where, bounds in ends.items() if not isinstance(bounds, str)},
        policy,
        missing=[Partition(*where) for where in committed.keys() - set(there)],
    )
    starts = {each.partition: each.start for each in backlog.ranges}
    return UnreadRange(
        task_run=task_run,
        group_id=group_id,
        kafka_cluster_id=cluster_id,
        ranges=tuple(PartitionRange(*where, starts.get(where, end), end) for where, end in backlog.ends.items()),
        before=tuple(
            _Committed(*where, each.offset, each.leader_epoch, each.metadata) for where, each in before.items()
        ),
        topic_ids=dict(ids),
    )


async def _commits_of_unused(admin: MaintenanceClient, group_id: str) -> Commits:
    """Return the committed offsets of a group without members; none where it does not exist."""
    reading = (await read_groups(admin, [group_id]))[group_id]
    before = {} if reading.committed is None else commits_in(reading.committed)
    why = why_kept(Change(group_id=group_id, before=before), reading, may_be_absent=True)
    if isinstance(why, Unread):
        raise MaintenanceError(f"group {group_id!r} cannot be read: {why}")
    if why is not None:
        remedy = "stop its consumers, or give this work a group of its own"
        raise MaintenanceError(f"group {group_id!r} is in use, or of another kind ({why}): {remedy}")
    return before


async def _partitions(admin: MaintenanceClient, topics: Collection[str]) -> list[TopicPartition]:
    answer = await admin.authorized_operations(topics)
    if failed := {topic: code for topic, code in answer.errors.items() if code.name != "unknown_topic_or_partition"}:
        topic = min(failed)
        raise MaintenanceError(f"topic {topic!r} cannot be described: {failed[topic].name.upper()}")
    return [
        TopicPartition(topic, number)
        for topic in sorted(topics)
        for number in range(answer.partition_counts.get(topic, 0))
    ]
