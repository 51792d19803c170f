"""A drill of a restore or a migration, which writes to and deletes only scratch groups with names of its own."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.change.deletion.verify import verify_deleted
from airflow_kafka_groups.change.restore.commit_changes import apply_changes
from airflow_kafka_groups.change.restore.current_logs import unread_part
from airflow_kafka_groups.exceptions import BackupError, KafkaGroupsError
from airflow_kafka_groups.kafka.models import ELIGIBLE_TYPES, NAMED_TYPES, GroupState
from airflow_kafka_groups.ledger.proposed_changes import Change, ChangeOutcome, commits_in, partition_name
from airflow_kafka_groups.observe.readings import read_groups
from airflow_kafka_groups.storage.layout import Progress

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient


log = logging.getLogger(__name__)


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


async def rehearse(
    admin: MaintenanceClient, backup_id: str, proposed: Sequence[Change], *, scratch_prefix: str, progress: Progress
) -> DrillReport:
    """Commit changes to scratch groups, compare, and delete the scratch groups.

    :param backup_id: the backup, or the plan of the migration, that proposes them.
    :param scratch_prefix: the prefix of the scratch groups' names, followed by this id, a random number and a counter.

    Raises ``BackupError`` if there is no change; nothing was written then. Later errors are in the report.
    """
    if not proposed:
        raise BackupError(f"{backup_id} contains no group to rehearse")
    prefix = f"{scratch_prefix}{backup_id}.{secrets.token_hex(4)}."
    group_ids = {f"{prefix}{number}": change.group_id for number, change in enumerate(proposed)}
    changes = [replace(change, group_id=name) for name, change in zip(group_ids, proposed, strict=True)]
    try:
        results = await apply_changes(admin, changes, dry_run=False, may_be_absent=True, progress=progress)
    finally:
        left = await _remove(admin, changes)
        if left:  # also where an error ends the drill, so that nobody gets its report
            log.warning("Scratch groups of the drill may still exist: %s", ", ".join(left))
    failed = {each.group_id: each.reason for each in results if each.outcome is not ChangeOutcome.CHANGED}
    nothing = {change.group_id for change in changes if not change.after and change.skipped}
    if nothing < group_ids.keys():  # otherwise the drill shows nothing, and says why
        failed = {name: reason for name, reason in failed.items() if name not in nothing}
    unread = ((each.group_id, unread_part(each.skipped)) for each in results)  # nobody knows of these whether
    failed |= {name: why for name, why in unread if why is not None}  # they can be restored
    good = [change for change in changes if change.group_id not in failed and change.after]
    return DrillReport(
        backup_id=backup_id,
        restored=tuple(group_ids[change.group_id] for change in good),
        partitions=sum(len(change.after) for change in good),
        skipped={
            f"{group_ids[change.group_id]}: {partition_name(where)}": reason
            for change in changes
            for where, reason in change.skipped.items()
        },
        failed={group_ids[name]: reason for name, reason in failed.items()},
        left=left,
    )


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
