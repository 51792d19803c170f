"""A drill of a restore or a migration: it commits the offsets to scratch groups, compares, and deletes these groups.

Only groups created by the drill are written to or deleted: a scratch group must not exist before, and is deleted only
if it is empty and contains exactly the restored offsets. What an earlier try of the same task left behind, because it
was killed, is removed before.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol

from airflow_kafka_groups.change.deletion.verify import Verification, verify_deleted
from airflow_kafka_groups.change.restore.commit_changes import apply_changes
from airflow_kafka_groups.change.restore.current_logs import unread_part
from airflow_kafka_groups.exceptions import BackupError, KafkaGroupsError, MaintenanceError
from airflow_kafka_groups.kafka.models import ELIGIBLE_TYPES, NAMED_TYPES, GroupState
from airflow_kafka_groups.ledger.proposed_changes import Change, ChangeOutcome, Commits, commits_in, partition_name
from airflow_kafka_groups.observe.readings import committed_of, read_groups
from airflow_kafka_groups.storage.layout import Layout, Progress, ignore_progress

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient


log = logging.getLogger(__name__)

SCRATCH_PREFIX = "airflow-kafka-groups-drill."


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillReport:
    """The result of a drill.

    :param backup_id: the backup, or the plan of the migration.
    :param restored: the groups whose committed offsets read back as they were proposed.
    :param partitions: the number of these offsets.
    :param skipped: the partitions that are left out, with the reason, by group.
    :param failed: the groups whose offsets differ or could not be committed, or of which a partition's log could not be
        read, with the reason; and all groups where none of them has a partition that is not left out.
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


class Rehearsed(Protocol):
    """A request that can be rehearsed."""

    @property
    def plan_id(self) -> str | None:
        """The backup, or the plan, if it is known before."""

    async def rehearse(self, admin: MaintenanceClient, layout: Layout, most: int) -> list[tuple[Change, Commits]]:
        """Return what would be committed if no group existed, and what an earlier try may have committed.

        :param most: the number of groups, those with the most partitions first.
        """


async def rehearse(
    admin: MaintenanceClient,
    layout: Layout,
    request: Rehearsed,
    *,
    groups: int = 20,
    scratch_prefix: str = SCRATCH_PREFIX,
    task_run: str = "",
    progress: Progress = ignore_progress,
) -> DrillReport:
    """Commit what a request proposes to scratch groups, compare, and delete the scratch groups.

    :param request: a ``RestoreRequest`` or a ``MigrateRequest``.
    :param groups: maximum number of groups to rehearse, those with the most partitions first. Default 20.
    :param scratch_prefix: the prefix of the scratch groups' names, followed by the plan's id and a number.
    :param task_run: what all tries of a task have in common, which is then a part of these names. Default: no task.

    Raises ``BackupError`` if a backup is damaged or of another cluster, ``MaintenanceError`` if there is no group or a
    scratch group exists, and what ``propose`` of the request raises; nothing was written then. Later errors are in the
    report.
    """
    name = request.plan_id or "migration"
    proposed = await request.rehearse(admin, layout, groups)
    if not proposed:
        raise BackupError(f"{name} contains no group to rehearse")
    tag = f"{sha256(task_run.encode()).hexdigest()[:8]}." if task_run else ""
    scratch = {f"{scratch_prefix}{name}.{tag}{number}": each for number, (each, _) in enumerate(proposed)}
    found = await verify_deleted(admin, scratch)
    if not (found.ok or tag):
        raise _exist(found)
    changes = [replace(change, group_id=name) for name, change in scratch.items()]
    if not found.ok:
        earlier = zip(scratch, (commits for _, commits in proposed), strict=True)  # maybe not in the log now
        await _remove(admin, [Change(group_id=name, after=commits) for name, commits in earlier])
        if not (found := await verify_deleted(admin, scratch)).ok:
            raise _exist(found)
    others = set[str]()
    try:
        results = await apply_changes(admin, changes, dry_run=False, may_be_absent=True, progress=progress)
        others = {each.group_id for each in results if each.outcome is ChangeOutcome.KEPT}
        failed = {each.group_id: each.reason for each in results if each.outcome is not ChangeOutcome.CHANGED}
        nothing = {change.group_id for change in changes if not change.after and change.skipped}
        if nothing < scratch.keys():  # otherwise the drill shows nothing, and says why
            failed = {name: reason for name, reason in failed.items() if name not in nothing}
        unread = ((each.group_id, unread_part(each.skipped)) for each in results)  # nobody knows of these whether
        failed |= {name: why for name, why in unread if why is not None}  # they can be restored
        restored = [change for change in changes if change.group_id not in failed and change.after]
        failed |= await _differing(admin, restored)
    finally:
        left = await _remove(admin, [change for change in changes if change.group_id not in others])
        if left:  # also where an error ends the drill, so that nobody gets its report
            log.warning("Scratch groups of the drill may still exist: %s", ", ".join(left))
    good = [change for change in restored if change.group_id not in failed]
    return DrillReport(
        backup_id=request.plan_id or name,
        restored=tuple(scratch[change.group_id].group_id for change in good),
        partitions=sum(len(change.after) for change in good),
        skipped={
            f"{scratch[change.group_id].group_id}: {partition_name(where)}": reason
            for change in changes
            for where, reason in change.skipped.items()
        },
        failed={scratch[name].group_id: reason for name, reason in failed.items()},
        left=left,
    )


def _exist(found: Verification) -> MaintenanceError:
    return MaintenanceError(
        f"scratch groups exist already, or their state is unknown: {found.present or found.unclear}. Delete them if no "
        "other drill of this backup is running, or use another scratch_prefix"
    )


async def _differing(admin: MaintenanceClient, changes: Sequence[Change]) -> dict[str, str]:
    """Return the scratch groups whose offsets are not exactly those restored, with the reason."""
    now = await committed_of(admin, [change.group_id for change in changes])
    differing = {}
    for change in changes:
        read = now[change.group_id]
        if read.value is None:
            differing[change.group_id] = f"cannot be read: {read.error}"
        elif commits_in(read.value) != dict(change.after):
            differing[change.group_id] = "differs from what was proposed"
    return differing


async def _remove(admin: MaintenanceClient, changes: Sequence[Change]) -> dict[str, str]:
    """Delete the empty scratch groups that contain only restored offsets; return those that remain, or may remain."""
    after = {change.group_id: change.after for change in changes if change.after}
    try:
        ours = {}
        for name, reading in (await read_groups(admin, list(after))).items():
            group, offsets = reading.group, reading.committed
            if group is None or group.state is not GroupState.EMPTY or offsets is None:
                continue
            if all(after[name].get(where) == value for where, value in commits_in(offsets).items()):
                ours[name] = offsets
        if ours:
            await admin.delete_consumer_groups(list(ours), offsets=ours, types=ELIGIBLE_TYPES | NAMED_TYPES)
        found = await verify_deleted(admin, after)
        return {**found.present, **found.unclear}
    except KafkaGroupsError as error:
        return dict.fromkeys(after, f"whether it was deleted is not known: {error}")
