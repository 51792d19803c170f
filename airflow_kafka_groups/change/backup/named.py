"""Backups of groups without a plan, e.g. before a migration or for a drill. No deletion accepts them.

The file has the format of a planned backup, so that a restore needs no distinction; only its digest shows that there is
no plan. Groups in use are backed up as they are at that moment.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from airflow_kafka_groups.change.backup.file import OUT_OF_REACH, Backup
from airflow_kafka_groups.change.backup.planned import BackupDraft, entry_of
from airflow_kafka_groups.change.backup.topic_ids import TopicIds, read_topics
from airflow_kafka_groups.exceptions import BackupError
from airflow_kafka_groups.kafka.models import GroupListing
from airflow_kafka_groups.kafka.models.group_types import keeps_progress_elsewhere
from airflow_kafka_groups.observe.fingerprint import committed_partitions
from airflow_kafka_groups.observe.patterns import GroupFilter, check_group_ids
from airflow_kafka_groups.observe.protocols import BackupAdmin, is_out_of_reach, read_offsets, why_short
from airflow_kafka_groups.storage.ids import new_id
from airflow_kafka_groups.storage.layout import Layout, Progress, ignore_progress, utc_now

log = logging.getLogger(__name__)

NO_PLAN = "no plan"
"""The plan digest of a backup without a plan."""


async def backup_named(
    admin: BackupAdmin,
    layout: Layout,
    *,
    group_ids: Sequence[str] | None = None,
    groups: GroupFilter | None = None,
    protected: Sequence[str] = (),
    progress: Progress = ignore_progress,
) -> Backup:
    """Back up groups by name or by pattern. The ``plan_id`` of the backup is its own id.

    :param group_ids: the groups; those that do not exist are in ``not_backed_up``.
    :param groups: or the patterns of the groups; ``None`` for all.
    :param protected: patterns of groups that may be refused, besides those of platform groups: that is no failure.

    Groups that cannot be backed up are in ``not_backed_up``. Raises ``IncompleteListingError`` if a broker did not
    answer, and ``BackupError`` if the cluster has no id or the file read back differs.
    """
    cluster_id = await admin.cluster_id()
    if not cluster_id:
        raise BackupError("the cluster reports no id, so its backups could not be distinguished from another cluster's")
    listed = (await admin.list_groups()).require_complete()
    if group_ids is None:
        chosen = groups or GroupFilter()
        wanted = sorted(group_id for group_id in listed if chosen.selects(group_id))
    else:
        wanted = check_group_ids(group_ids)
    not_backed_up = {id_: reason for id_ in wanted if (reason := _why_not(listed.get(id_))) is not None}
    asked = [group_id for group_id in wanted if group_id not in not_backed_up]
    draft = BackupDraft(utc_now(), await TopicIds.of(admin, await read_topics(admin, asked)))
    draft.left_out.update(not_backed_up)
    async for result in read_offsets(admin, asked, require_stable=True):
        if group_ids is None and is_out_of_reach(result.group_id, result.error, protected):
            draft.left_out[result.group_id] = OUT_OF_REACH
        elif result.value is None:
            draft.left_out[result.group_id] = f"could not be read: {result.error}"
        elif not committed_partitions(result.value):
            draft.left_out[result.group_id] = "no committed offset is visible"
        else:
            listing = listed[result.group_id]
            entry = entry_of(result.group_id, listing.type.value, listing.protocol_type, result.value)
            draft.add(entry, utc_now(), result.value)
        progress("backup", len(draft.entries) + len(draft.left_out), len(wanted))
    if (warning := await why_short(admin, "This backup may lack")) is not None:
        log.warning("%s", warning)
    return await draft.store(admin, layout, new_id(draft.started_at), NO_PLAN, cluster_id)


def _why_not(listing: GroupListing | None) -> str | None:
    if listing is None:
        return "it does not exist"
    if keeps_progress_elsewhere(listing.type, listing.protocol_type):
        return f"it is a {listing.type.value} group, which keeps its progress elsewhere"
    return None
