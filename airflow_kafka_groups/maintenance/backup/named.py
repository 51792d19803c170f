"""Backups of groups without a plan, e.g. before a migration or for a drill. No deletion accepts them.

The file has the format of a planned backup, so that a restore needs no distinction; only its digest shows that there is
no plan. Groups in use are backed up as they are at that moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from airflow_kafka_groups.contracts.group_types import keeps_progress_elsewhere
from airflow_kafka_groups.contracts.ids import new_id
from airflow_kafka_groups.exceptions import BackupError
from airflow_kafka_groups.maintenance.backup.file import Backup
from airflow_kafka_groups.maintenance.backup.groups import BackupEntry
from airflow_kafka_groups.maintenance.backup.planned import add_topics, entry_of, to_parquet, write_and_verify
from airflow_kafka_groups.maintenance.fingerprint import committed_partitions
from airflow_kafka_groups.maintenance.patterns import GroupFilter, check_group_ids
from airflow_kafka_groups.maintenance.protocols import BackupAdmin, read_offsets
from airflow_kafka_groups.maintenance.snapshot.table import GroupFacts, GroupTable
from airflow_kafka_groups.maintenance.storage import Clock, Layout, Progress, ignore_progress, utc_now
from airflow_kafka_groups.models import GroupListing

NO_PLAN = "no plan"
"""The plan digest of a backup without a plan."""


async def backup_named(
    admin: BackupAdmin,
    layout: Layout,
    *,
    group_ids: Sequence[str] | None = None,
    groups: GroupFilter | None = None,
    now: Clock = utc_now,
    progress: Progress = ignore_progress,
) -> Backup:
    """Back up groups by name or by pattern. The ``plan_id`` of the backup is its own id.

    :param group_ids: the groups; those that do not exist are in ``not_backed_up``.
    :param groups: or the patterns of the groups; ``None`` for all.

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
        wanted = check_group_ids("group_ids", group_ids)
    not_backed_up = {id_: reason for id_ in wanted if (reason := _why_not(listed.get(id_))) is not None}
    asked = [group_id for group_id in wanted if group_id not in not_backed_up]
    started_at = now()
    table = GroupTable()
    entries: dict[str, BackupEntry] = {}
    async for result in read_offsets(admin, asked, require_stable=True):
        facts = _facts(listed[result.group_id])
        if result.value is None:
            not_backed_up[result.group_id] = f"could not be read: {result.error}"
        elif not committed_partitions(result.value):
            not_backed_up[result.group_id] = "no committed offset is visible"
        else:
            table.add(facts, now(), result.value)
            entries[result.group_id] = entry_of(facts, result.value)
        progress("backup", len(entries) + len(not_backed_up), len(wanted))
    topic_ids = await add_topics(admin, table)
    backup_id = new_id(started_at)
    backup = Backup(
        plan_id=backup_id,
        plan_digest=NO_PLAN,
        cluster=layout.cluster,
        kafka_cluster_id=cluster_id,
        created_at=started_at,
        rows=len(table),
        entries=entries,
        not_backed_up=not_backed_up,
        topic_ids=topic_ids,
    )
    data = await asyncio.to_thread(to_parquet, table, backup)
    del table  # what is read back needs as much memory again
    return await asyncio.to_thread(write_and_verify, layout, backup, data)


def _why_not(listing: GroupListing | None) -> str | None:
    if listing is None:
        return "it does not exist"
    if keeps_progress_elsewhere(listing.type, listing.protocol_type):
        return f"it is a {listing.type.value} group, which keeps its progress elsewhere"
    return None


def _facts(listing: GroupListing) -> GroupFacts:
    return GroupFacts(
        group_id=listing.group_id,
        group_type=listing.type.value,
        protocol_type=listing.protocol_type,
        state=listing.state.value,
        members=None,
        coordinator=listing.coordinator,
    )
