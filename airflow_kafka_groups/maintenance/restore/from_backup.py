"""Restores of a backup's offsets, limited to groups and partitions where that is safe.

A group is restored if it does not exist or is empty, and has committed nothing that differs from the backup (offset,
metadata, or a newer leader epoch): a group that was used since keeps its newer commits (unless ``overwrite``).
A partition is left out if its topic was deleted or recreated (it has another id, or its log starts or ends earlier than
at the time of the backup), or if the offset is outside the log, where it would refer to another record, or none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from airflow_kafka_groups.exceptions import BackupError, ConfigurationError
from airflow_kafka_groups.maintenance.backup.file import Backup, open_backup
from airflow_kafka_groups.maintenance.backup.groups import BackedUpGroup
from airflow_kafka_groups.maintenance.protocols import BackupAdmin
from airflow_kafka_groups.maintenance.restore.changes import Change, Commits, Ends, commits_in, committed_of, log_ends
from airflow_kafka_groups.maintenance.storage import Layout
from airflow_kafka_groups.models import OffsetAndMetadata, TopicPartition


async def propose_restore(
    admin: BackupAdmin, layout: Layout, plan_id: str, *, group_ids: Sequence[str] | None = None, overwrite: bool = False
) -> list[Change]:
    """Return the changes that a restore would commit; nothing is written.

    :param plan_id: the plan of the backup.
    :param group_ids: only these groups; ``None`` (default) for all in the backup.
    :param overwrite: also reset groups that have committed other offsets since. Default false.

    Raises ``BackupError`` if the backup is damaged or of another Kafka cluster, ``ConfigurationError`` for a group that
    it does not contain.
    """
    backup, saved = await asyncio.to_thread(open_backup, layout, plan_id)
    here = await admin.cluster_id()
    if here != backup.kafka_cluster_id:
        raise BackupError(
            f"the backup of plan {plan_id} belongs to Kafka cluster {backup.kafka_cluster_id!r}, this one is "
            f"{here!r}: check the connection"
        )
    groups = await asyncio.to_thread(lambda: {group.entry.group_id: group for group in saved})
    wanted = list(groups) if group_ids is None else list(group_ids)
    if unknown := [group_id for group_id in wanted if group_id not in groups]:
        raise ConfigurationError("group_ids", unknown, f"these groups are not in the backup of plan {plan_id}")
    now = await committed_of(admin, wanted) if wanted else {}
    ends = await log_ends(admin, (where for group_id in wanted for where in groups[group_id].offsets))
    recreated = await recreated_topics(admin, backup)
    changes = []
    for group_id in wanted:
        read = now[group_id]
        if read.error is not None or read.value is None:
            changes.append(Change(group_id=group_id, kept=f"its offsets cannot be read: {read.error}"))
        else:
            changes.append(propose_group(groups[group_id], commits_in(read.value), ends, overwrite, recreated))
    return changes


async def recreated_topics(admin: BackupAdmin, backup: Backup) -> dict[str, str]:
    """Return the topics whose id differs from the backup's, with a message each. Topics without an id are ignored."""
    if not backup.topic_ids:
        return {}
    here = await admin.topic_ids(backup.topic_ids)
    return {
        topic: f"the topic was recreated: its id is {here[topic]} and was {before}"
        for topic, before in backup.topic_ids.items()
        if here.get(topic, before) != before
    }


def propose_group(
    group: BackedUpGroup, before: Commits, ends: Ends, overwrite: bool, recreated: Mapping[str, str]
) -> Change:
    """Return the change that a restore would commit for one group.

    :param before: its current committed offsets.
    :param ends: the current log starts and ends.
    :param recreated: recreated topics, with the message.
    """
    group_id = group.entry.group_id
    saved = commits_in(group.offsets)
    newer = [
        where for where, value in before.items() if where not in saved or _was_committed_since(value, saved[where])
    ]
    if newer and not overwrite:
        where = newer[0]
        return Change(
            group_id=group_id,
            before=before,
            kept=f"it was used since the backup: {where.topic}[{where.partition}] is at {before[where].offset}",
        )
    skipped = {}
    for where, value in saved.items():
        if reason := recreated.get(where.topic) or _why_skipped(where, value.offset, group, ends):
            skipped[where] = reason
    after = {where: value for where, value in saved.items() if where not in skipped}
    kept = None if after else "it cannot be restored: each of its topics was deleted or recreated, or lacks the offset"
    return Change(group_id=group_id, before=before, after=after, skipped=skipped, kept=kept)


def _was_committed_since(now: OffsetAndMetadata, saved: OffsetAndMetadata) -> bool:
    """Return whether a commit is another one than the backup's: of another offset or metadata, or a newer epoch."""
    epochs = [-1 if value.leader_epoch is None else value.leader_epoch for value in (now, saved)]
    return (now.offset, now.metadata) != (saved.offset, saved.metadata) or epochs[0] > epochs[1]


def _why_skipped(where: TopicPartition, offset: int, group: BackedUpGroup, ends: Ends) -> str | None:
    found = ends.get(where, "the log start and end are unknown")
    if isinstance(found, str):
        return found
    start, end = found
    old_start, old_end = group.log_ends.get(where, (None, None))
    if (old_end is not None and end < old_end) or (old_start is not None and start < old_start):
        return f"the topic was recreated: its log is {start} to {end} and was {old_start} to {old_end}"
    if not start <= offset <= end:
        return f"offset {offset} is outside the log, {start} to {end}"
    return None
