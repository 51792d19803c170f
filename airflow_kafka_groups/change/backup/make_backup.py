"""Backups of what a plan deletes, or of named groups: offsets are read again, written, read back and compared.

A complete backup is never replaced: when groups were deleted by it, a fresh reading would find nothing. Every try
writes its rows under a name of its own and then creates the manifest, which only one can; the others use that backup.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import logging
import secrets
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_kafka_groups.change.backup.file import (
    OUT_OF_REACH,
    Backup,
    entries_of,
    find_backup,
    load_backup,
    manifest_json,
    open_backup,
)
from airflow_kafka_groups.checks import check_digest
from airflow_kafka_groups.exceptions import BackupError, ConfigurationError, FileExistsAlreadyError, SnapshotError
from airflow_kafka_groups.kafka.admin.results import GroupResult, collection_paused
from airflow_kafka_groups.kafka.models import GroupOffsets, TopicOffsets
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan, load_plan, require_here
from airflow_kafka_groups.ledger.plan_rows import Target
from airflow_kafka_groups.observe.fingerprint import committed_partitions, fingerprint
from airflow_kafka_groups.observe.patterns import GroupFilter, check_group_ids
from airflow_kafka_groups.observe.readings import is_out_of_reach, read_offsets, why_short
from airflow_kafka_groups.observe.snapshot.collect import gather_log_ends
from airflow_kafka_groups.observe.snapshot.reader import BATCH_ROWS, SnapshotReader
from airflow_kafka_groups.observe.snapshot.table import GroupFacts, GroupRows, write_parquet
from airflow_kafka_groups.storage.arrow_values import column, release_unused
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.json_files import json_bytes
from airflow_kafka_groups.storage.layout import Clock, Layout, Progress, ignore_progress, utc_now
from airflow_kafka_groups.storage.paths import is_id, new_id
from airflow_kafka_groups.storage.schemas import BACKUP_COLUMNS

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient


_logger = logging.getLogger(__name__)


async def back_up_plan(
    admin: MaintenanceClient,
    layout: Layout,
    plan: DeletionPlan,
    *,
    approved_digest: str | None = None,
    now: Clock = utc_now,
    progress: Progress = ignore_progress,
) -> Backup:
    """Back up what the plan deletes, or verify and return the plan's existing backup.

    That of a plan of topics has exactly their offsets, and is marked as partial: a restore commits these partitions and
    compares no others.

    :param approved_digest: the plan's digest as approved; another plan is refused.

    What cannot be backed up is in ``not_backed_up``, by name. Raises ``PlanError`` if the plan must not be applied, and
    ``BackupError`` if the file read back differs.
    """
    if approved_digest is not None:
        plan.require_digest(approved_digest)
    if plan.cluster != layout.cluster:
        raise BackupError(f"plan {plan.plan_id} is for cluster {plan.cluster!r}, not for {layout.cluster!r}")
    cluster_id = await admin.cluster_id()
    for warning in await require_here(admin, plan, cluster_id, now()):
        _logger.warning("%s", warning)
    if (existing := await asyncio.to_thread(find_backup, layout, plan.plan_id)) is not None:
        return require_backup_of(existing, plan)
    with collection_paused():  # what is read is kept to the end, and has no cycles
        planned = defaultdict[str, list[Target]](list)
        for target in plan.targets():
            planned[target.group_id].append(target)
        asked = {target.topic for of_group in planned.values() for target in of_group if target.topic is not None}
        is_partial = bool(asked)
        asked = asked or await _planned_topics(admin, layout, plan.snapshot_id, list(planned))
        draft = BackupDraft(now(), await admin.topic_ids(sorted(asked)))
        seen = {} if plan.view is None else plan.view.topic_ids
        recreated = {topic for topic, id_ in draft.topic_ids.items() if seen.get(topic, id_) != id_}
        done = 0
        async for result in read_offsets(admin, list(planned), require_stable=True):
            _add(draft, planned[result.group_id], result, now(), recreated)
            done += 1
            progress("backup", done, len(planned))
        del planned  # what is read back needs memory
        of_plan = plan.plan_id, plan.digest, plan.kafka_cluster_id
        stored = await draft.store(admin, layout, *of_plan, partial=is_partial)
    return require_backup_of(stored, plan)


async def _planned_topics(
    admin: MaintenanceClient, layout: Layout, snapshot_id: str, group_ids: Sequence[str]
) -> set[str]:
    """Return the topics that planned groups have offsets of: those of the plan's snapshot, which costs no request.

    They are read where there is no such snapshot: it was removed, or groups were named instead of planned.
    """
    if is_id(snapshot_id):
        try:
            return await asyncio.to_thread(lambda: SnapshotReader(layout, snapshot_id).topics_of(group_ids))
        except SnapshotError as error:
            _logger.warning("The topics are read from the cluster: %s", error)
    return await _read_topics(admin, group_ids)


async def _read_topics(admin: MaintenanceClient, group_ids: Sequence[str]) -> set[str]:
    """Return the topics that groups have offsets of. Groups that cannot be read are left out."""
    found: set[str] = set()
    async for result in read_offsets(admin, list(group_ids), require_stable=False):
        if result.value is not None:
            found.update(part.topic for part in result.value.topics)
    return found


def _add(
    draft: BackupDraft,
    targets: Sequence[Target],
    result: GroupResult[GroupOffsets],
    read_at: datetime,
    recreated: Set[str],
) -> None:
    """Add what is planned of a group, or note why it cannot be backed up.

    :param recreated: the topics that were recreated since the plan's snapshot, as far as that is known.
    """
    saved = list[TopicOffsets]()
    for target in targets:
        if result.value is None:
            draft.left_out[target.name] = f"could not be read: {result.error}"
            continue
        part = target.part_of(result.value)
        if not committed_partitions(part):
            draft.left_out[target.name] = "no committed offset is visible any more"
        elif fingerprint(part) != target.fingerprint:
            draft.left_out[target.name] = "its offsets moved since the plan was made"
        elif others := sorted({each.topic for each in part.topics} & recreated):
            draft.left_out[target.name] = f"topic {others[0]!r} was recreated since the plan was made"
        else:
            saved += part.topics
    if not saved:
        return
    group, offsets = targets[0], GroupOffsets(result.group_id, tuple(saved))
    if group.topic is None:  # an equal fingerprint, which is there already
        entry = group._replace(partitions=committed_partitions(offsets), group_epoch=None)
    else:
        entry = entry_of(group.group_id, group.group_type, group.protocol_type, offsets)
    draft.add(entry, read_at, offsets)


class BackupDraft:
    """A backup whose groups are being read.

    :param topic_ids: the ids of their topics, as far as they have one, from before their offsets are read. With those
        from afterwards, a restore would set offsets on a topic that was recreated meanwhile.

    ``left_out`` are those that cannot be backed up, with the reason.
    """

    def __init__(self, started_at: datetime, topic_ids: Mapping[str, str]) -> None:
        self.left_out: dict[str, str] = {}
        self.entries: dict[str, Target] = {}
        self.started_at = started_at
        self.topic_ids = topic_ids
        self._table = GroupRows()

    def add(self, entry: Target, read_at: datetime, offsets: GroupOffsets) -> None:
        """Add a group as it was read."""
        facts = GroupFacts(entry.group_id, entry.group_type, entry.protocol_type)
        self._table.add(read_at, offsets, facts=facts)
        self.entries[entry.group_id] = entry

    async def store(
        self,
        admin: MaintenanceClient,
        layout: Layout,
        plan_id: str,
        plan_digest: str,
        kafka_cluster_id: str,
        *,
        partial: bool = False,
    ) -> Backup:
        """Read the logs of its topics, write the files, and verify them (``write_and_verify``). It is empty then.

        Raises ``BackupError`` if a topic got its id only while offsets were read: a restore would leave it out.
        """
        topics = {each.topic for each in self._table.partitions}
        without = sorted(topics - self.topic_ids.keys())
        if without and (new := await admin.topic_ids(without)):
            raise BackupError(f"topic {min(new)!r} was created, or got its id, while offsets were read: back up again")
        await gather_log_ends(admin, self._table)
        backup = Backup(
            plan_id=plan_id,
            plan_digest=plan_digest,
            cluster=layout.cluster,
            kafka_cluster_id=kafka_cluster_id,
            created_at=self.started_at,
            rows=len(self._table),
            entries=self.entries,
            not_backed_up=self.left_out,
            topic_ids={topic: id_ for topic, id_ in sorted(self.topic_ids.items()) if topic in topics},
            partial=partial,
        )
        data = await asyncio.to_thread(to_parquet, self._table, backup)
        self._table = GroupRows()  # what is read back needs as much memory again
        release_unused()
        return await asyncio.to_thread(write_and_verify, layout, backup, data)


def find_backup_of(layout: Layout, plan: DeletionPlan) -> Backup | None:
    """Read and verify the backup of a plan, with its entries by name, as in the journal. ``None`` if there is none.

    Raises ``BackupError`` for one that is damaged, or of another plan, and ``StorageError``.
    """
    if (backup := find_backup(layout, plan.plan_id)) is None:
        return None
    require_backup_of(backup, plan)
    if not backup.partial:
        return backup
    entries: dict[str, Target] = {}
    for group in open_backup(layout, plan.plan_id)[1]:
        for topic in {part.topic for part in group.offsets.topics}:
            target = group.entry._replace(topic=topic)
            part = target.part_of(group.offsets)
            entry = target._replace(partitions=committed_partitions(part), fingerprint=fingerprint(part))
            entries[entry.name] = entry
    if both := entries.keys() & backup.not_backed_up.keys():
        raise BackupError(f"{backup.path} contains {min(both)!r}, which its manifest lists as not backed up")
    return replace(backup, entries=entries)


def require_backup_of(backup: Backup, plan: DeletionPlan) -> Backup:
    """Return the backup, or raise ``BackupError`` if it does not belong to exactly this plan."""
    found = backup.plan_id, backup.plan_digest, backup.cluster, backup.kafka_cluster_id
    if found != (plan.plan_id, plan.digest, plan.cluster, plan.kafka_cluster_id):
        raise BackupError(
            f"the backup in {backup.path} does not belong to plan {plan.plan_id} with digest {plan.digest}"
        )
    if backup.partial != plan.prunes:
        raise BackupError(f"the backup in {backup.path} is {'' if backup.partial else 'not '}one of topics")
    return backup


def entry_of(group_id: str, group_type: str, protocol_type: str, offsets: GroupOffsets) -> Target:
    """Build the backup entry of a group with these offsets."""
    return Target(
        group_id=group_id,
        group_type=group_type,
        protocol_type=protocol_type,
        partitions=committed_partitions(offsets),
        fingerprint=fingerprint(offsets),
    )


def write_and_verify(layout: Layout, backup: Backup, data: bytes) -> Backup:
    """Write the rows, read them back, compare each group with memory, and only then create the manifest.

    :param data: the rows, as ``to_parquet`` returns them.

    Returns what is to be used: this backup as it was read back, or the one of another try that was faster. Raises
    ``BackupError`` when the file does not read back as it was written, and ``StorageError``.
    """
    path = layout.backup_data(backup.plan_id, secrets.token_hex(4))  # what one try wrote no other replaces
    FILES.create(path, data)
    rows = FILES.read(path) or b""
    wanted, found = backup.entries, entries_of(path, rows, backup)
    if wanted != found:
        differ = [group_id for group_id in {**wanted, **found} if wanted.get(group_id) != found.get(group_id)]
        raise BackupError(f"{path} differs when read back, for {len(differ)} group(s): {differ[:3]}")
    if rows != data:  # in what no fingerprint covers
        raise BackupError(f"{path} differs when read back")
    place = layout.backup_manifest(backup.plan_id)
    manifest = json_bytes(manifest_json(backup, path.name, hashlib.sha256(data).hexdigest(), len(data)))
    try:
        FILES.create(place, manifest)
    except FileExistsAlreadyError:
        # Another try was faster, and groups may be deleted by its backup: what this one has just read may lack them.
        return load_backup(layout, backup.plan_id)
    if (FILES.read(path), FILES.read(place)) != (rows, manifest):
        raise BackupError(f"{path} or its manifest differs when read back")
    return replace(backup, path=str(path))


def to_parquet(table: GroupRows, backup: Backup) -> bytes:
    """Return the rows of a backup as the Parquet file that is stored."""
    import pyarrow as pa

    prints = column([entry.fingerprint for entry in backup.entries.values()], pa.string())
    constants = {name: getattr(backup, name) for name in ("cluster", "kafka_cluster_id", "plan_id")}
    buffer = io.BytesIO()
    write_parquet(buffer, BACKUP_COLUMNS, table.sorted_chunks(BATCH_ROWS, fingerprint=prints), constants)
    return buffer.getvalue()


NO_PLAN = "no plan"
"""The plan digest of a backup without a plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRequest:
    """Back up committed offsets. Raises ``ConfigurationError`` for invalid values.

    :param plan_id: the plan whose groups are backed up, with ``plan_digest``; another plan is refused.
    :param group_ids: without a plan: the groups.
    :param groups: without both: the patterns of the groups. Default: all.
    """

    plan_id: str | None = None
    plan_digest: str | None = None
    group_ids: Sequence[str] | None = None
    groups: GroupFilter = field(default_factory=GroupFilter)

    def __post_init__(self) -> None:
        if (self.plan_id is None) != (self.plan_digest is None):
            raise ConfigurationError("plan_id, plan_digest", None, "give both or none")
        if self.plan_id is not None:
            check_digest("plan_digest", self.plan_digest)
        if sum((self.plan_id is not None, self.group_ids is not None, self.groups != GroupFilter())) > 1:
            raise ConfigurationError("backup", None, "give one of: a plan, group ids, or patterns")


async def back_up(
    admin: MaintenanceClient,
    layout: Layout,
    request: BackupRequest,
    *,
    protected: Sequence[str] = (),
    progress: Progress = ignore_progress,
) -> Backup:
    """Write the backup of a request, and verify it by reading it back. Without a plan, its ``plan_id`` is its own id.

    :param protected: patterns of groups that may be refused, besides those of platform groups: that is no failure.

    Groups that cannot be backed up, or do not exist, are in ``not_backed_up``. Raises ``IncompleteListingError`` if a
    broker did not answer, ``BackupError`` if the cluster has no id or the file read back differs, and what
    ``back_up_plan`` raises.
    """
    if request.plan_id is not None:
        plan = await asyncio.to_thread(load_plan, layout, request.plan_id)
        return await back_up_plan(admin, layout, plan, approved_digest=request.plan_digest, progress=progress)
    cluster_id = await admin.cluster_id()
    if not cluster_id:
        raise BackupError("the cluster reports no id, so its backups could not be distinguished from another cluster's")
    listed = (await admin.list_groups()).require_complete()
    names = request.group_ids
    wanted = sorted(filter(request.groups.selects, listed)) if names is None else check_group_ids(names)
    not_backed_up = {id_: "it does not exist" for id_ in wanted if id_ not in listed}
    asked = [group_id for group_id in wanted if group_id not in not_backed_up]
    draft = BackupDraft(utc_now(), await admin.topic_ids(sorted(await _read_topics(admin, asked))))
    draft.left_out.update(not_backed_up)
    async for result in read_offsets(admin, asked, require_stable=True):
        if names is None and is_out_of_reach(result.group_id, result.error, protected):
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
        _logger.warning("%s", warning)
    return await draft.store(admin, layout, new_id(draft.started_at), NO_PLAN, cluster_id)
