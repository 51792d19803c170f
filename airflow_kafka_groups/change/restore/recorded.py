"""Changes of offsets with their record: the previous offsets before anything is written, the results afterwards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from airflow_kafka_groups.change.deletion.request import MAX_READ_AGE_SECONDS
from airflow_kafka_groups.change.restore.commit_changes import CommitAdmin, apply_changes
from airflow_kafka_groups.change.restore.current_logs import DELETED_MEANWHILE, Unread, unread_of, unread_part
from airflow_kafka_groups.change.restore.earlier_tries import TASK_RUN, wait_for_deletions
from airflow_kafka_groups.change.restore.signs import apply_to_unused, wanted_before
from airflow_kafka_groups.exceptions import KafkaGroupsError, MaintenanceError, OutcomeUnknownError
from airflow_kafka_groups.kafka.admin.results import collection_paused
from airflow_kafka_groups.ledger.keep_alive_records import KAFKA_CLUSTER_ID, KEPT_AT, KINDS, RESTORE, tag_of
from airflow_kafka_groups.ledger.proposed_changes import Change, ChangeOutcome, ChangeResult, counts_of
from airflow_kafka_groups.observe.snapshot.cluster_folders import latest_known_time, note_folder
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.formats import FORMAT
from airflow_kafka_groups.storage.json_files import write_listing
from airflow_kafka_groups.storage.layout import Layout, Progress, StoragePath, ignore_progress, utc_now
from airflow_kafka_groups.storage.paths import CHANGES, new_id

log = logging.getLogger(__name__)

_NUMBERS = ("partitions", "skips", "rereads")
_FAILED = (ChangeOutcome.FAILED, ChangeOutcome.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedChanges:
    """The results of the changes, what was proposed, and the file that has them.

    :param path: ``None`` where offsets were to be deleted, and none was.
    """

    results: list[ChangeResult]
    changes: list[Change]
    path: StoragePath | None
    dry_run: bool

    @property
    def counts(self) -> dict[str, int]:
        """The number of groups by outcome."""
        return counts_of(self.results)

    def summary(self) -> dict[str, Any]:
        """Return the numbers, and where the record is, as JSON values."""
        numbers = {name: sum(getattr(item, name) for item in self.results) for name in _NUMBERS}
        return {"counts": self.counts, **numbers, "result_path": None if self.path is None else str(self.path)}

    def failures(self) -> dict[str, KafkaGroupsError]:
        """Return the groups whose change failed, or is not known, or of which something could not be read.

        The latter only where something was to be changed: the brokers may answer the next try.
        """
        found = {item.group_id: item.reason for item in self.results if item.outcome in _FAILED}
        if not self.dry_run:
            unread = ((item.group_id, _why_unread(item)) for item in self.results if item.group_id not in found)
            found |= {group_id: why for group_id, why in unread if why is not None}
        return {group_id: KafkaGroupsError(why) for group_id, why in found.items()}

    @property
    def is_complete(self) -> bool:
        """Whether nothing was left out: no group was kept, and no partition skipped."""
        return not any(item.outcome is ChangeOutcome.KEPT or item.skipped for item in self.results)


def _why_unread(result: ChangeResult) -> str | None:
    """Return why a group, or a part of it, is as it was, if something of it could not be read."""
    return unread_of([result.reason]) if result.outcome is ChangeOutcome.KEPT else unread_part(result.skipped)


async def change_recorded(
    admin: CommitAdmin,
    layout: Layout,
    what: str,
    propose: Callable[[], Awaitable[list[Change]]],
    *,
    protects: Callable[[str], bool],
    dry_run: bool,
    may_be_absent: bool = False,
    apply: Callable[[list[Change]], Awaitable[list[ChangeResult]]] | None = None,
    facts: Mapping[str, Any] | None = None,
    progress: Progress = ignore_progress,
) -> RecordedChanges:
    """Propose changes, record the previous offsets, apply the changes, and record the results.

    :param what: the kind of change, for the record: ``restore``, ``reset``, ``alter``.
    :param protects: whether the connection protects a group; such a group is kept.
    :param dry_run: change nothing.
    :param may_be_absent: change groups that do not exist, too. The record is that of a restore then, whatever the kind.
    :param apply: applies the changes. Default: ``apply_changes`` with these arguments.
    :param facts: further fields of both files. Default: none.

    Raises what ``propose`` raises, and ``MaintenanceError`` or ``OSError`` before anything is changed if the previous
    offsets cannot be recorded; ``OutcomeUnknownError``, with what was changed, if only the result cannot be.
    """
    run_id = new_id(utc_now())
    head: dict[str, Any] = {"format": FORMAT, "run_id": run_id, "what": what, "dry_run": dry_run}
    head |= {"cluster": layout.cluster, **(facts or {})}
    kind = RESTORE if may_be_absent else what
    cluster_id, began = await admin.cluster_id(), utc_now()
    if (kind == RESTORE or TASK_RUN in head) and not dry_run:  # these are looked for from other folders, too
        head[KAFKA_CLUSTER_ID] = cluster_id
    before_this = await asyncio.to_thread(wanted_before, layout, cluster_id) if may_be_absent else {}
    if (kind == RESTORE or KEPT_AT in head) and not dry_run:
        await asyncio.to_thread(_note_wanted, layout, head)
    name = f"{run_id}-{tag_of(kind)}"
    with collection_paused():  # all that is proposed is kept to the end, and has no cycles
        before = layout.root / CHANGES, f"{name}before.json"
        changes = await _proposed(propose, protects)
        if not dry_run:  # recorded before anything is written, so that the change can be undone
            await _record(before, head, changes)
        if kind in KINDS and not dry_run:
            names = [change.group_id for change in changes]
            if await wait_for_deletions(layout, head[KAFKA_CLUSTER_ID], names, utc_now()):
                changes = await _proposed(propose, protects)  # the groups are others by now, or none
                await _record(before, head, changes)
        if apply is None:
            apply = partial(
                apply_changes,
                admin,
                dry_run=dry_run,
                may_be_absent=may_be_absent,
                max_read_age_seconds=MAX_READ_AGE_SECONDS,  # clients without membership may have committed since
                progress=progress,
            )
        apply = partial(apply_to_unused, layout, cluster_id, began, before_this, apply)
        results = await apply(changes)
        if what == RESTORE and not dry_run:  # offsets that are set are not all that a group had
            results = await _once_more(results, partial(_proposed, propose, protects), changes, before, head, apply)
        found = (result.to_json() for result in results)
        counts = counts_of(results)
        end = {**head, "counts": counts}
        place = (layout.root / CHANGES, f"{name}result.json")
        try:
            path = await asyncio.to_thread(write_listing, *place, end, "groups", found)
        except MaintenanceError as exc:
            if dry_run:
                raise
            changed = ", ".join(f"{outcome} {count}" for outcome, count in counts.items() if count)
            raise OutcomeUnknownError(  # not a failure of the storage, which is retried: a reset would be made twice
                f"{exc}. The {what} itself was made before ({changed or 'no group'}), and only its result is not "
                "recorded: mend the storage, and run it again as a dry run to see the state"
            ) from exc
    return RecordedChanges(results=results, changes=changes, path=path, dry_run=dry_run)


def _note_wanted(layout: Layout, head: dict[str, Any]) -> None:
    """Note that a clean-up has to spare what is brought back, as what is kept alive, and that this folder names it."""
    if KEPT_AT not in head:
        head[KEPT_AT] = latest_known_time(layout, utc_now(), head[KAFKA_CLUSTER_ID]).isoformat()
    note_folder(layout, head[KAFKA_CLUSTER_ID])


async def _proposed(propose: Callable[[], Awaitable[list[Change]]], protects: Callable[[str], bool]) -> list[Change]:
    return [_kept_if(change, protects(change.group_id)) for change in await propose()]


async def _once_more(
    results: list[ChangeResult],
    propose: Callable[[], Awaitable[list[Change]]],
    changes: list[Change],
    place: tuple[StoragePath, str],
    head: Mapping[str, Any],
    apply: Callable[[list[Change]], Awaitable[list[ChangeResult]]],
) -> list[ChangeResult]:
    """Restore the groups, too, that a deletion took between the proposal and the record, which it now heeds.

    Its request was over when such ones were looked for. Return all results.
    """
    gone = {result.group_id for result in results if result.reason == DELETED_MEANWHILE}
    if not gone:
        return results
    try:
        again = {change.group_id: change for change in await propose() if change.group_id in gone}
        await _record(place, head, [again.get(change.group_id, change) for change in changes])
    except KafkaGroupsError as error:  # what was restored is on record in any case
        log.warning("%d groups were deleted meanwhile and are not restored: run it again. %s", len(gone), error)
        why = Unread(f"{DELETED_MEANWHILE}, and it is not restored: {error}")  # nobody uses it: the task has to fail
        return [replace(result, reason=why) if result.group_id in gone else result for result in results]
    done = {result.group_id: _failed_if_gone(result) for result in await apply(list(again.values()))}
    return [done.get(result.group_id, result) for result in results]


def _failed_if_gone(result: ChangeResult) -> ChangeResult:
    """Return a result, by which the task has to fail where the group was deleted once more."""
    if result.reason != DELETED_MEANWHILE:
        return result
    return replace(result, reason=Unread(f"{DELETED_MEANWHILE}, and it is not restored: more were after that"))


async def _record(place: tuple[StoragePath, str], head: Mapping[str, Any], changes: list[Change]) -> None:
    proposed = (change.to_json() for change in changes)
    path = await asyncio.to_thread(write_listing, *place, head, "groups", proposed)
    await asyncio.to_thread(FILES.sync, path)


def _kept_if(change: Change, protected: bool) -> Change:
    return replace(change, kept="the connection protects it", after={}) if protected else change
