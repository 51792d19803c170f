"""Restores of a backup's offsets, limited to groups, topics and partitions where that is safe.

A group that was used since keeps its newer commits (unless ``overwrite``), and of topics that were pruned, each is
restored by itself. A partition is left out if its topic was deleted or recreated (it has another id, or its log starts
or ends earlier than at the time of the backup), or if the offset is outside the log: it would mean another record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, cast

from airflow_kafka_groups.change.backup.file import BackedUpGroup, Backup, open_backup
from airflow_kafka_groups.change.restore.change_offsets import Earlier, OffsetRequest, first_try
from airflow_kafka_groups.change.restore.current_logs import CurrentLogs, commits_of, current_logs, unread_of
from airflow_kafka_groups.exceptions import BackupError, ConfigurationError
from airflow_kafka_groups.kafka.admin.lag import partitions_of
from airflow_kafka_groups.kafka.models import GroupOffsets, GroupType, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.ledger.journal import read_history
from airflow_kafka_groups.ledger.plan_rows import name_of
from airflow_kafka_groups.ledger.proposed_changes import Change, Commits, commits_in, is_same, partition_name
from airflow_kafka_groups.observe.log_ends import Unread
from airflow_kafka_groups.shown import with_links
from airflow_kafka_groups.storage.access import unless_warned
from airflow_kafka_groups.storage.layout import Layout

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient


def pruned_names(layout: Layout, backup: Backup) -> Collection[str] | None:
    """Return the names of the topics that the plan's runs deleted or may have deleted, as the journal has them.

    ``None`` if the journal knows no run of the plan or cannot be read: who restores after an accident may have lost it.
    """
    with unless_warned("Which topics were pruned is not known, so all of the backup are restored: %s"):
        runs = read_history(layout, backup.kafka_cluster_id).of_plan(backup.plan_id)
        return {name for run in runs for name in run.possibly_deleted()} if runs else None
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRequest(OffsetRequest):
    """Restore the offsets of a backup.

    :param plan_id: the plan of the backup, or the id of a backup without a plan.
    :param group_ids: only these groups, also as copied from a message. Default: all in the backup.
    :param overwrite: also reset groups that were used since. Default false.
    """

    what: ClassVar[str] = "restore"
    plan_id: str
    group_ids: Sequence[str] | None = None
    overwrite: bool = False

    @property
    def continues(self) -> bool:
        """Whether an earlier try is continued: without overwriting, what was used since the backup is kept anyway."""
        return self.overwrite

    async def propose(self, admin: MaintenanceClient, layout: Layout, earlier: Earlier = first_try) -> list[Change]:
        """Return the changes. Raises ``BackupError``, and ``ConfigurationError`` for a group that it does not have."""
        backup, groups = await self._open(admin, layout)
        now = await commits_of(admin, list(groups)) if groups else {}
        logs = await current_logs(admin, backup, partitions_of(group.offsets for group in groups.values()))
        pruned = await asyncio.to_thread(pruned_names, layout, backup) if backup.partial else None
        changes = []
        for group_id in list(groups):
            group, before = groups.pop(group_id), now[group_id]  # its change is as large again
            if isinstance(before, Unread):
                changes.append(Change(group_id=group_id, kept=before))
            elif backup.partial:
                changes.append(propose_topics(group, before, logs, self.overwrite, pruned))
            else:
                changes.append(propose_group(group, before, logs, self.overwrite))
        if self.overwrite or backup.partial:  # then a use is known, or one of pruned topics is no matter
            return changes
        return [replace(change, as_of=backup.created_at) for change in changes]

    async def rehearse(self, admin: MaintenanceClient, layout: Layout, most: int) -> list[Change]:
        """Return what would be committed if no group existed, of so many groups, those with the most partitions."""
        backup, groups = await self._open(admin, layout)
        ordered = sorted(groups.values(), key=lambda group: (-group.entry.partitions, group.entry.group_id))[:most]
        logs = await current_logs(admin, backup, (where for group in ordered for where in group.offsets))
        return [propose_group(group, {}, logs, False) for group in ordered]

    async def _open(self, admin: MaintenanceClient, layout: Layout) -> tuple[Backup, dict[str, BackedUpGroup]]:
        backup, saved = await asyncio.to_thread(open_backup, layout, self.plan_id)
        here = await admin.cluster_id()
        if here != backup.kafka_cluster_id:
            raise BackupError(
                f"the backup of plan {self.plan_id} belongs to Kafka cluster {backup.kafka_cluster_id!r}, this one is "
                f"{here!r}: check the connection"
            )
        groups = await asyncio.to_thread(lambda: {group.entry.group_id: group for group in saved})
        named = groups if self.group_ids is None else self.group_ids
        wanted = list(dict.fromkeys(name if name in groups else with_links(name) for name in named))
        if unknown := [group_id for group_id in wanted if group_id not in groups]:
            raise ConfigurationError("group_ids", unknown, f"these groups are not in the backup of plan {self.plan_id}")
        return backup, {group_id: groups[group_id] for group_id in wanted}


def propose_group(group: BackedUpGroup, before: Commits, logs: CurrentLogs, overwrite: bool) -> Change:
    """Return the change that a restore would commit for one group, of which ``before`` are the current offsets."""
    if not overwrite and (where := _newer(before, group.offsets)) is not None:
        return Change(group_id=group.entry.group_id, before=before, kept=_used(where, before))
    if group.entry.group_type == GroupType.SHARE:  # where it is behind a log's start, it would have read on there
        starts = {
            at: of._replace(offset=max(of.offset, logs.start(at))) for at, of in commits_in(group.offsets).items()
        }
        group = replace(group, offsets=GroupOffsets.from_mapping(group.entry.group_id, starts))
    return _change(group, before, _skipped(group, before, logs), logs.topic_ids)


def propose_topics(
    group: BackedUpGroup, before: Commits, logs: CurrentLogs, overwrite: bool, pruned: Collection[str] | None
) -> Change:
    """Return the change that a restore of pruned topics would commit for one group, whose others are no matter.

    :param pruned: the names of the topics that were pruned; ``None`` if that is not known.
    """
    group_id = group.entry.group_id
    if not before:
        return Change(group_id=group_id, kept="it has no offsets any more, and the backup has some topics only")
    now: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {topic.topic: {} for topic in group.offsets.topics}
    for where, value in before.items():
        if where.topic in now:
            now[where.topic][where] = value
    used: dict[str, str] = {}
    for topic, commits in now.items():
        was_pruned = pruned is None or name_of(group_id, topic) in pruned
        if not (overwrite and was_pruned) and (newer := _newer(commits, group.offsets)) is not None:
            used[topic] = _used(newer, before) + ("" if was_pruned else "; the topic was not pruned")
    if len(used) == len(now):
        return Change(group_id=group_id, before=before, kept=next(iter(used.values())))
    kept = {where: used[where.topic] for where in group.offsets if where.topic in used}
    return _change(group, before, _skipped(group, before, logs) | kept, logs.topic_ids)


def _change(
    group: BackedUpGroup, before: Commits, skipped: Mapping[TopicPartition, str], topic_ids: Mapping[str, str]
) -> Change:
    saved = group.offsets  # each of a backup's partitions has a commit
    after: Commits = cast("Commits", saved)  # as columns, if it is all of them: a backup can have millions
    if skipped:
        after = {where: value for where, value in commits_in(saved).items() if where not in skipped}
    why = "it cannot be restored: each of its topics was deleted or recreated, or lacks the offset"
    unread = unread_of(skipped.values())
    kept = None if after else why if unread is None else Unread(f"it cannot be restored: {unread}")
    moves = [value.offset - before[where].offset for where, value in after.items() if where in before] if before else []
    return Change(
        group_id=group.entry.group_id,
        before=before,
        after=after,
        skipped=skipped,
        kept=kept,
        topic_ids=topic_ids,
        group_type=group.entry.group_type,
        skips=sum(move for move in moves if move > 0),
        rereads=-sum(move for move in moves if move < 0),
    )


def _used(where: TopicPartition, before: Commits) -> str:
    return f"it was used since the backup: {partition_name(where)} is at {before[where].offset}"


def _newer(before: Commits, saved: GroupOffsets) -> TopicPartition | None:
    """Return the first partition with another offset or metadata than in the backup, or with a newer epoch."""
    for where, value in before.items():
        then = saved.get(where)
        if then is None or not is_same(value, then) or _epoch(value) > _epoch(then):
            return where
    return None


def _epoch(commit: OffsetAndMetadata) -> int:
    return -1 if commit.leader_epoch is None else commit.leader_epoch


def _skipped(group: BackedUpGroup, before: Commits, logs: CurrentLogs) -> dict[TopicPartition, str]:
    """Return the partitions that cannot be restored, with the reason.

    Brokers forget the offsets of a topic that is deleted. One that the group has all the same was committed while the
    topic was recreated, by another try, which failed: no later one may be a success.
    """
    skipped = {}
    rows = ((topic.topic, row[0], row[1]) for topic in group.offsets.topics for row in topic.rows())
    for (topic, partition, offset), old_start, old_end in zip(rows, *group.bounds, strict=True):
        where = TopicPartition(topic, partition)
        if (reason := logs.why_skipped(where, offset, old_start, old_end)) is not None:
            is_old = topic in logs.recreated and is_same(before.get(where), group.offsets.get(where))
            skipped[where] = Unread(f"{reason}, and the group has its old offset there: reset it") if is_old else reason
    return skipped
