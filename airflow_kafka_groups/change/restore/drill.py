"""A restore drill: restores a backup's offsets into scratch groups, compares them, and deletes the scratch groups.

Only groups created by the drill are written to or deleted: a scratch group must not exist before, and is deleted only
if it is empty and contains exactly the restored offsets. What an earlier try of the same task left behind, because it
was killed, is removed before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any

from airflow_kafka_groups.change.backup.file import BackedUpGroup, open_backup
from airflow_kafka_groups.change.deletion.verify import Verification, verify_deleted
from airflow_kafka_groups.change.restore.commit_changes import CommitAdmin, apply_changes
from airflow_kafka_groups.change.restore.current_logs import current_logs, unread_part
from airflow_kafka_groups.change.restore.from_backup import propose_group
from airflow_kafka_groups.exceptions import BackupError, KafkaGroupsError, MaintenanceError
from airflow_kafka_groups.kafka.models import GroupState
from airflow_kafka_groups.ledger.proposed_changes import Change, ChangeOutcome, ChangeResult, commits_in, partition_name
from airflow_kafka_groups.observe.protocols import committed_of
from airflow_kafka_groups.storage.layout import Layout, Progress, ignore_progress

log = logging.getLogger(__name__)

SCRATCH_PREFIX = "airflow-kafka-groups-drill."


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillReport:
    """The result of a drill.

    :param restored: the groups whose restored offsets equal the backup.
    :param partitions: the number of these offsets.
    :param skipped: the partitions that a restore leaves out, with the reason, by group.
    :param failed: the groups whose restored offsets differ or could not be committed, or of which a partition's log
        could not be read, with the reason; and all groups where none of them has a partition that a restore does not
        leave out.
    :param left: scratch groups that may still exist, with what is known about them.
    """

    backup_id: str
    restored: tuple[str, ...]
    partitions: int
    skipped: Mapping[str, str]
    failed: Mapping[str, str]
    left: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {**asdict(self), "restored": len(self.restored)}


async def rehearse_restore(
    admin: CommitAdmin,
    layout: Layout,
    backup_id: str,
    *,
    groups: int = 20,
    scratch_prefix: str = SCRATCH_PREFIX,
    task_run: str = "",
    progress: Progress = ignore_progress,
) -> DrillReport:
    """Restore groups of a backup into scratch groups, compare, and delete the scratch groups.

    :param backup_id: the backup, i.e. its plan's id.
    :param groups: maximum number of groups to restore, those with the most partitions first. Default 20.
    :param scratch_prefix: the prefix of the scratch groups' names, followed by the backup's id and a number.
    :param task_run: what all tries of a task have in common, which is then a part of these names. Default: no task.

    Raises ``BackupError`` if the backup is damaged, empty or of another cluster, and ``MaintenanceError`` if a scratch
    group exists; nothing was written then. Later errors are in the report.
    """
    backup, groups_of_backup = await asyncio.to_thread(open_backup, layout, backup_id)
    if (here := await admin.cluster_id()) != backup.kafka_cluster_id:
        raise BackupError(
            f"backup {backup_id} belongs to Kafka cluster {backup.kafka_cluster_id!r}, this one is {here!r}"
        )
    saved = await asyncio.to_thread(list, groups_of_backup)
    chosen = sorted(saved, key=lambda group: (-group.entry.partitions, group.entry.group_id))[:groups]
    if not chosen:
        raise BackupError(f"backup {backup_id} contains no group to restore")
    tag = f"{sha256(task_run.encode()).hexdigest()[:8]}." if task_run else ""
    scratch = {f"{scratch_prefix}{backup_id}.{tag}{number}": group for number, group in enumerate(chosen)}
    found = await verify_deleted(admin, scratch)
    if not (found.ok or tag):
        raise _exist(found)
    logs = await current_logs(admin, backup, (where for group in chosen for where in group.offsets))
    changes = [replace(propose_group(group, {}, logs, False), group_id=name) for name, group in scratch.items()]
    if not found.ok:
        written = ((name, commits_in(group.offsets)) for name, group in scratch.items())  # maybe not in the log now
        await _remove(admin, [Change(group_id=name, after=commits) for name, commits in written])
        if not (found := await verify_deleted(admin, scratch)).ok:
            raise _exist(found)
    others = set[str]()
    try:
        outcomes = {
            result.group_id: result
            for result in await apply_changes(admin, changes, dry_run=False, may_be_absent=True, progress=progress)
        }
        changes = [_as_applied(change, outcomes[change.group_id]) for change in changes]
        others = {name for name in scratch if outcomes[name].outcome is ChangeOutcome.KEPT}
        failed = {
            name: outcomes[name].reason for name in scratch if outcomes[name].outcome is not ChangeOutcome.CHANGED
        }
        nothing = {change.group_id for change in changes if not change.after and change.skipped}
        if nothing < scratch.keys():  # otherwise the drill shows nothing, and says why
            failed = {name: reason for name, reason in failed.items() if name not in nothing}
        unread = ((name, unread_part(outcomes[name].skipped)) for name in scratch)  # nobody knows of these whether
        failed |= {name: why for name, why in unread if why is not None}  # they can be restored
        restored = [change for change in changes if change.group_id not in failed and change.after]
        failed |= await _differing(admin, restored)
    finally:
        left = await _remove(admin, [change for change in changes if change.group_id not in others])
        if left:  # also where an error ends the drill, so that nobody gets its report
            log.warning("Scratch groups of the drill may still exist: %s", ", ".join(left))
    good = [change for change in restored if change.group_id not in failed]
    return DrillReport(
        backup_id=backup_id,
        restored=tuple(scratch[change.group_id].entry.group_id for change in good),
        partitions=sum(len(change.after) for change in good),
        skipped=_skipped(changes, scratch),
        failed={scratch[name].entry.group_id: reason for name, reason in failed.items()},
        left=left,
    )


def _exist(found: Verification) -> MaintenanceError:
    return MaintenanceError(
        f"scratch groups exist already, or their state is unknown: {found.present or found.unclear}. Delete them if no "
        "other drill of this backup is running, or use another scratch_prefix"
    )


def _as_applied(change: Change, result: ChangeResult) -> Change:
    """Return a change without the partitions that were left out of it later: topics may be recreated in between."""
    if result.skipped.keys() == {partition_name(where) for where in change.skipped}:
        return change
    late = {where: why for where in change.after if (why := result.skipped.get(partition_name(where))) is not None}
    after = {where: value for where, value in change.after.items() if where not in late}
    return replace(change, after=after, skipped={**change.skipped, **late})


async def _differing(admin: CommitAdmin, changes: Sequence[Change]) -> dict[str, str]:
    """Return the scratch groups whose offsets are not exactly those restored, with the reason."""
    now = await committed_of(admin, [change.group_id for change in changes])
    differing = {}
    for change in changes:
        read = now[change.group_id]
        if read.value is None:
            differing[change.group_id] = f"cannot be read: {read.error}"
        elif commits_in(read.value) != dict(change.after):
            differing[change.group_id] = "differs from the backup"
    return differing


async def _remove(admin: CommitAdmin, changes: Sequence[Change]) -> dict[str, str]:
    """Delete the empty scratch groups that contain only restored offsets; return those that remain, or may remain."""
    names = [change.group_id for change in changes if change.after]
    try:
        return await _remove_empty(admin, names, changes)
    except KafkaGroupsError as error:
        return dict.fromkeys(names, f"whether it was deleted is not known: {error}")


async def _remove_empty(admin: CommitAdmin, names: list[str], changes: Sequence[Change]) -> dict[str, str]:
    described = await admin.describe_consumer_groups(names)
    now = await committed_of(admin, names)
    ours = {}
    for change in changes:
        group, read = described.get(change.group_id), now.get(change.group_id)
        if group is None or group.value is None or read is None or read.value is None:
            continue
        held = commits_in(read.value)
        if group.value.state is GroupState.EMPTY and all(change.after.get(where) == held[where] for where in held):
            ours[change.group_id] = read.value
    if ours:
        await admin.delete_consumer_groups(list(ours), offsets=ours)
    found = await verify_deleted(admin, names)
    return {**found.present, **found.unclear}


def _skipped(changes: Sequence[Change], scratch: Mapping[str, BackedUpGroup]) -> dict[str, str]:
    reasons = {}
    for change in changes:
        for where, reason in change.skipped.items():
            reasons[f"{scratch[change.group_id].entry.group_id}: {partition_name(where)}"] = reason
    return reasons
