"""Give groups back the offsets of a backup, where that can do no harm.

A group is restored when it does not exist or is empty, and has committed nothing that the backup does not say: one that
was used again since keeps its newer offsets (``overwrite`` says otherwise). A partition is left out when its topic is
gone, was made anew (it has another id, or its log ends or begins earlier than when the backup was made), or when the
offset lies outside the log: there it would mean another record, or none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from airflow_kafka_groups.exceptions import BackupError, ConfigurationError
from airflow_kafka_groups.maintenance.backup.file import BackedUpGroup, Backup, load_backup, read_backup
from airflow_kafka_groups.maintenance.protocols import BackupAdmin
from airflow_kafka_groups.maintenance.restore.changes import Change, Commits, Ends, commits_in, committed_of, log_ends
from airflow_kafka_groups.maintenance.storage import Layout
from airflow_kafka_groups.models import TopicPartition


async def propose_restore(
    admin: BackupAdmin, layout: Layout, plan_id: str, *, group_ids: Sequence[str] | None = None, overwrite: bool = False
) -> list[Change]:
    """Say what a restore would commit; nothing is written.

    :param plan_id: the plan whose backup it is.
    :param group_ids: only these groups; ``None`` (default) for all of the backup.
    :param overwrite: also set back groups that have committed something else since; default false.

    Raises ``BackupError`` when the backup is damaged or of another Kafka cluster, ``ConfigurationError`` for a group
    that is not in it.
    """
    backup = await asyncio.to_thread(load_backup, layout, plan_id)
    here = await admin.cluster_id()
    if here != backup.kafka_cluster_id:
        raise BackupError(
            f"the backup of plan {plan_id} is of the Kafka cluster {backup.kafka_cluster_id!r} and this one is "
            f"{here!r}: check the connection"
        )
    groups = {group.entry.group_id: group for group in await asyncio.to_thread(lambda: [*read_backup(layout, plan_id)])}
    wanted = list(groups) if group_ids is None else list(group_ids)
    if unknown := [group_id for group_id in wanted if group_id not in groups]:
        raise ConfigurationError("group_ids", unknown, f"these groups are not in the backup of plan {plan_id}")
    now = await committed_of(admin, wanted) if wanted else {}
    ends = await log_ends(admin, (where for group_id in wanted for where in groups[group_id].offsets))
    remade = await topics_made_anew(admin, backup)
    changes = []
    for group_id in wanted:
        read = now[group_id]
        if read.error is not None or read.value is None:
            changes.append(Change(group_id=group_id, kept=f"its offsets cannot be read: {read.error}"))
        else:
            changes.append(propose_group(groups[group_id], commits_in(read.value), ends, overwrite, remade))
    return changes


async def topics_made_anew(admin: BackupAdmin, backup: Backup) -> dict[str, str]:
    """Name the topics of a backup that have another id by now, and say so; nothing is said of those without one."""
    if not backup.topic_ids:
        return {}
    here = await admin.topic_ids(backup.topic_ids)
    return {
        topic: f"the topic was made anew: its id is {here[topic]}, and was {before}"
        for topic, before in backup.topic_ids.items()
        if here.get(topic, before) != before
    }


def propose_group(
    group: BackedUpGroup, before: Commits, ends: Ends, overwrite: bool, remade: Mapping[str, str]
) -> Change:
    """Say what a restore would commit for one group.

    :param before: what it has committed now.
    :param ends: the logs' ends now.
    :param remade: topics that were made anew, with the reason to give.
    """
    group_id = group.entry.group_id
    saved = commits_in(group.offsets)
    newer = [where for where, value in before.items() if where not in saved or saved[where].offset != value.offset]
    if newer and not overwrite:
        where = newer[0]
        return Change(
            group_id=group_id,
            before=before,
            kept=f"it was used since the backup: {where.topic}[{where.partition}] is at {before[where].offset}",
        )
    skipped = {}
    for where, value in saved.items():
        if reason := remade.get(where.topic) or _why_skipped(where, value.offset, group, ends):
            skipped[where] = reason
    after = {where: value for where, value in saved.items() if where not in skipped}
    kept = None if after else "nothing of it can be restored: all its partitions are gone or were made anew"
    return Change(group_id=group_id, before=before, after=after, skipped=skipped, kept=kept)


def _why_skipped(where: TopicPartition, offset: int, group: BackedUpGroup, ends: Ends) -> str | None:
    found = ends.get(where, "nobody said anything about it")
    if isinstance(found, str):
        return found
    start, end = found
    old_start, old_end = group.log_ends.get(where, (None, None))
    if (old_end is not None and end < old_end) or (old_start is not None and start < old_start):
        return f"the topic was made anew: its log is {start} to {end}, and was {old_start} to {old_end}"
    if not start <= offset <= end:
        return f"offset {offset} is outside the log, {start} to {end}"
    return None
