"""The backup of exactly the offsets that a pruning deletes, in the format of every backup, marked as partial.

A restore commits these partitions and compares no others. A complete backup is never replaced.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Set
from dataclasses import replace
from datetime import datetime

from airflow_kafka_groups.change.backup.file import Backup, find_backup, open_backup
from airflow_kafka_groups.change.backup.make_backup import BackupDraft, entry_of, require_backup_of
from airflow_kafka_groups.change.backup.topic_ids import LATE, TopicIds
from airflow_kafka_groups.change.prune_topics.topic_recheck import offsets_of_topic
from airflow_kafka_groups.exceptions import BackupError
from airflow_kafka_groups.kafka.admin.results import GroupResult
from airflow_kafka_groups.kafka.models import GroupOffsets, TopicOffsets
from airflow_kafka_groups.ledger.prune_plan import PlannedTopic, PrunePlan, name_of
from airflow_kafka_groups.observe.fingerprint import fingerprint
from airflow_kafka_groups.observe.protocols import BackupAdmin, read_offsets
from airflow_kafka_groups.storage.layout import Clock, Layout


async def backup_topics(admin: BackupAdmin, layout: Layout, plan: PrunePlan, *, now: Clock) -> None:
    """Back up the planned topics, or verify the plan's existing backup.

    Topics that cannot be read or have moved are left out, and are not pruned therefore.

    :param plan: the plan, which has been found applicable.

    Raises ``BackupError`` if the file read back differs, and ``StorageError``.
    """
    if (existing := await asyncio.to_thread(find_backup, layout, plan.plan_id)) is not None:
        require_backup_of(existing, plan)
        return
    by_group: dict[str, list[PlannedTopic]] = defaultdict(list)
    for item in plan.groups:
        by_group[item.group_id].append(item)
    seen = None if plan.view is None else plan.view.topic_ids
    ids = await TopicIds.of(admin, {item.topic for item in plan.groups}, seen)
    draft = BackupDraft(now(), ids)
    waiting = list[GroupResult[GroupOffsets]]()
    async for result in read_offsets(admin, sorted(by_group), require_stable=True):
        if ids.lack_id(item.topic for item in by_group[result.group_id]):
            waiting.append(result)
        else:
            _add(draft, by_group[result.group_id], result, now())
    late = await ids.came_since(admin, {item.topic for result in waiting for item in by_group[result.group_id]})
    for result in waiting:
        _add(draft, by_group[result.group_id], result, now(), late)
    ids_of_plan = plan.plan_id, plan.digest, plan.kafka_cluster_id
    stored = await draft.store(admin, layout, *ids_of_plan, partial=True, late=late)
    require_backup_of(stored, plan)


def _add(
    draft: BackupDraft,
    items: list[PlannedTopic],
    result: GroupResult[GroupOffsets],
    read_at: datetime,
    late: Set[str] = frozenset(),
) -> None:
    """Add the planned topics of a group.

    :param late: topics that got their id only while offsets were read. Default: none.
    """
    parts = list[TopicOffsets]()
    for item in items:
        if result.value is None:
            draft.left_out[item.name] = f"could not be read: {result.error}"
            continue
        of_topic = offsets_of_topic(result.value, item.topic)
        if fingerprint(of_topic) != item.fingerprint:
            draft.left_out[item.name] = "its offsets moved since the plan was made"
        elif item.topic in late:  # a restore would leave it out
            draft.left_out[item.name] = f"the topic {LATE}"
        else:
            parts += of_topic.topics
    if parts:
        offsets = GroupOffsets(result.group_id, tuple(parts))
        entry = entry_of(result.group_id, items[0].group_type, items[0].protocol_type, offsets)
        draft.add(entry, read_at, offsets)


def saved_topics(layout: Layout, plan: PrunePlan) -> Backup | None:
    """Read and verify the backup of a plan; its entries are by topic, as in the journal. ``None`` if there is none.

    Raises ``BackupError`` for one that is damaged, or of another plan, and ``StorageError``.
    """
    if find_backup(layout, plan.plan_id) is None:
        return None
    backup, groups = open_backup(layout, plan.plan_id)
    require_backup_of(backup, plan)
    if not backup.partial:
        raise BackupError(f"the backup in {backup.path} is not one of topics")
    entries = {}
    for group in groups:
        whole = group.entry
        for topic in {part.topic for part in group.offsets.topics}:
            of_topic, name = offsets_of_topic(group.offsets, topic), name_of(whole.group_id, topic)
            entries[name] = entry_of(name, whole.group_type, whole.protocol_type, of_topic)
    if both := entries.keys() & backup.not_backed_up.keys():
        raise BackupError(f"{backup.path} contains {min(both)!r}, which its manifest lists as not backed up")
    return replace(backup, entries=entries)
