"""The one way in which committed offsets are changed: propose, guard, record what is there, apply, read back, record.

Each verb is an ``OffsetRequest``, which differs in what it proposes; a deletion and a keep-alive run also in how they
are applied.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar

from airflow_kafka_groups.change.deletion.request import protect_none
from airflow_kafka_groups.change.restore.commit_changes import apply_changes
from airflow_kafka_groups.change.restore.current_logs import unread_of, unread_part
from airflow_kafka_groups.change.restore.earlier_tries import (
    DELETION,
    TASK_RUN,
    EarlierTries,
    Tries,
    wait_for_deletions,
)
from airflow_kafka_groups.exceptions import GroupsFailedError, KafkaGroupsError, MaintenanceError, OutcomeUnknownError
from airflow_kafka_groups.kafka.admin.results import collection_paused
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.proposed_changes import Change, ChangeOutcome, ChangeResult, counts_of
from airflow_kafka_groups.ledger.records import ChangeEntry, KeptAlive, log_change
from airflow_kafka_groups.storage.access import unless_warned
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.formats import FORMAT
from airflow_kafka_groups.storage.json_files import write_listing
from airflow_kafka_groups.storage.layout import Layout, Progress, StoragePath, ignore_progress, utc_now
from airflow_kafka_groups.storage.paths import CHANGES, new_id

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient


_NOT_KNOWN = "Whether somebody uses the groups meanwhile is not known, beyond what the brokers tell: %s"
_NUMBERS = ("partitions", "skips", "rereads")
_FAILED = (ChangeOutcome.FAILED, ChangeOutcome.UNKNOWN)
Earlier: TypeAlias = Callable[[str | None], EarlierTries]


def first_try(kafka_cluster_id: str | None) -> EarlierTries:
    """Return what earlier tries meant to set where this is the first one."""
    return EarlierTries()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTerms:
    """On which terms offsets are changed.

    :param dry_run: make all checks and change nothing.
    :param protects: whether the connection protects a group. Default: none.
    :param tries: which earlier tries count. Default: this is the only one.
    :param progress: called with (stage, done, total). Default: never.
    """

    dry_run: bool
    protects: Callable[[str], bool] = protect_none
    tries: Tries | None = None
    progress: Progress = field(default=ignore_progress)


R_co = TypeVar("R_co", covariant=True)


class ChangeRequest(Protocol[R_co]):
    """The request of a verb that changes groups, which an operator, a command and a method of the hook have."""

    async def carry_out(self, admin: MaintenanceClient, layout: Layout, terms: ChangeTerms) -> R_co:
        """Make the changes, or only the checks, and return the results."""
        ...


class OffsetRequest(ABC):
    """A verb that changes offsets; ``what`` is its kind, for the record: ``restore``, ``reset``, ``alter``."""

    __slots__ = ()
    what: ClassVar[str]

    @property
    def facts(self) -> Mapping[str, Any]:
        """Further fields of the record. A later try must be asked for the same distance or target. Default: none."""
        return {}

    @property
    def continues(self) -> bool:
        """Whether an earlier try is continued (default). Otherwise, what was used meanwhile is kept anyway."""
        return True

    @property
    def may_be_absent(self) -> bool:
        """Whether groups that do not exist are created (default): somebody wants them to stay then."""
        return True

    @property
    def keeps(self) -> tuple[datetime, timedelta] | None:
        """Since when, and for how long, groups are kept alive. Default: they are not."""
        return None

    async def carry_out(self, admin: MaintenanceClient, layout: Layout, terms: ChangeTerms) -> RecordedChanges:
        """Change committed offsets, see ``change_offsets``."""
        return await change_offsets(admin, layout, self, terms)

    @abstractmethod
    async def propose(self, admin: MaintenanceClient, layout: Layout, earlier: Earlier = first_try) -> list[Change]:
        """Return the changes that would be made, each time of the same groups; nothing is written.

        :param earlier: reads what earlier tries meant to set, given the id that the brokers report.
        """

    async def apply(
        self, admin: MaintenanceClient, changes: Sequence[Change], terms: ChangeTerms
    ) -> list[ChangeResult]:
        """Apply the changes, verify them, and return one result each, in order. Default: commit them."""
        return await apply_changes(
            admin,
            changes,
            dry_run=terms.dry_run,
            may_be_absent=self.may_be_absent,
            progress=terms.progress,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedChanges:
    """The results of the changes, what was proposed, and the file that has them; ``None`` if nothing was recorded."""

    results: Sequence[ChangeResult]
    changes: Sequence[Change] = ()
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
        found: dict[str, KafkaGroupsError] = {}
        for item in self.results:
            why: str | None = item.reason
            if item.outcome not in _FAILED:
                is_kept = item.outcome is ChangeOutcome.KEPT
                why = None if self.dry_run else unread_of([item.reason]) if is_kept else unread_part(item.skipped)
            if why is not None:
                found[item.name] = KafkaGroupsError(why)
        return found

    def kept(self) -> dict[str, str]:
        """Return what was left as it is, with the reason."""
        return {item.name: item.reason for item in self.results if item.outcome is ChangeOutcome.KEPT}

    @property
    def is_complete(self) -> bool:
        """Whether nothing was left out: no group was kept, and no partition skipped."""
        return not self.kept() and not any(item.skipped for item in self.results)


class ChangeRecord:
    """The two files of a change in ``changes/``, what was there before and what became of it, and its log entry."""

    def __init__(self, layout: Layout, what: str, *, dry_run: bool, facts: Mapping[str, Any]) -> None:
        run_id = new_id(utc_now())
        self.head: dict[str, Any] = {"format": FORMAT, "run_id": run_id, "what": what, "dry_run": dry_run}
        self.head |= {"cluster": layout.cluster, **facts}
        self._layout, self._folder, self.run_id = layout, layout.root / CHANGES, run_id

    async def before(self, changes: Sequence[Change] | Sequence[ChangeResult]) -> None:
        """Record what is there, durably, before the change. Raises ``MaintenanceError`` or ``StorageError``."""
        await asyncio.to_thread(FILES.sync, await self._write("before", changes, self.head))

    async def _write(
        self, name: str, groups: Sequence[Change] | Sequence[ChangeResult], head: Mapping[str, Any]
    ) -> StoragePath:
        rows = (each.to_json() for each in groups)
        return await asyncio.to_thread(write_listing, self._folder, f"{self.run_id}-{name}.json", head, "groups", rows)

    def log(
        self,
        kafka_cluster_id: str | None,
        at: datetime,
        lasts: timedelta = timedelta(0),
        groups: Sequence[str] = (),
        task_run: str | None = None,
    ) -> None:
        """Add the change to the cluster's log, durably. Raises ``JournalError`` or ``StorageError``.

        :param at: since when, and ``lasts`` for how long, the ``groups`` are to stay. Default: none has to.
        :param task_run: what its tries have in common. Default: no later one continues it.
        """
        entry = ChangeEntry(
            at=at,
            until=at + lasts,
            what=self.head["what"],
            folder=self._layout.cluster,
            run_id=self.run_id,
            groups=tuple(groups),
            task_run=task_run,
        )
        log_change(self._layout, kafka_cluster_id, entry)

    async def result(self, results: Sequence[ChangeResult]) -> StoragePath:
        """Record the results. Raises ``OutcomeUnknownError``, with what was changed, if that cannot be done."""
        counts = counts_of(results)
        try:
            return await self._write("result", results, {**self.head, "counts": counts})
        except MaintenanceError as exc:
            if self.head["dry_run"]:
                raise
            changed = ", ".join(f"{outcome} {count}" for outcome, count in counts.items() if count)
            failed = (f"; first {each.name!r}: {each.reason}" for each in results if each.outcome in _FAILED)
            changed += next(failed, "")
            raise OutcomeUnknownError(  # not a failure of the storage, which is retried: a reset would be made twice
                f"{exc}. The {self.head['what']} itself was made before ({changed or 'no group'}), and only its result "
                "is not recorded: mend the storage, and run it again as a dry run to see the state"
            ) from exc


async def change_offsets(
    admin: MaintenanceClient, layout: Layout, request: OffsetRequest, terms: ChangeTerms
) -> RecordedChanges:
    """Change committed offsets as the request says, and return each group's result.

    A group that is protected, has members, or moves meanwhile is kept; a partition that does not exist is left out. An
    earlier try of the same change is continued: the offsets that it meant to set are set, and groups that were used
    since are kept. What a later try may continue, creates a group, or keeps it alive, is in the cluster's log before.

    Raises ``GroupsFailedError`` before anything is changed if offsets are to be deleted of a group that is protected or
    cannot be read, ``BackupError``, ``ConfigurationError``, and ``MaintenanceError`` or ``StorageError`` if what is
    there cannot be recorded, or not be logged; afterwards ``OutcomeUnknownError`` if only the result cannot be.
    """
    with collection_paused():  # all that is proposed is kept to the end, and has no cycles
        writes, tries, facts = not terms.dry_run, terms.tries, dict(request.facts)
        earlier: Earlier = first_try
        task_run: str | None = None
        if tries is not None:
            facts[TASK_RUN] = tries.task_run
        if tries is not None and request.continues:
            # Read once: a later look finds this try's own record.
            earlier, task_run = cache(partial(tries.read, layout, request.facts)), tries.task_run
        record = ChangeRecord(layout, request.what, dry_run=terms.dry_run, facts=facts)
        cluster_id, began = await admin.cluster_id(), utc_now()
        ledger = Ledger(layout, cluster_id)
        wants = request.may_be_absent or request.keeps is not None
        since, lasts = request.keeps or (began, timedelta(0))
        known, at = await asyncio.to_thread(_known, ledger, since) if wants else ({}, since)
        changes = await _propose(admin, layout, request, terms, earlier)
        names = [change.group_id for change in changes] if wants else []
        if writes:
            await record.before(changes)
            if wants or task_run is not None:  # a clean-up spares the groups from now on
                await asyncio.to_thread(record.log, cluster_id, at, lasts, names, task_run)
            if wants and await wait_for_deletions(layout, cluster_id, names, utc_now()):
                changes = await _propose(
                    admin, layout, request, terms, earlier
                )  # the groups are others by now, or none
                await record.before(changes)
        changes = await asyncio.to_thread(_with_signs, ledger, began, known, changes)
        results = await request.apply(admin, changes, terms)
        path = await record.result(results)
        return RecordedChanges(results=results, changes=changes, path=path, dry_run=terms.dry_run)


async def _propose(
    admin: MaintenanceClient, layout: Layout, request: OffsetRequest, terms: ChangeTerms, earlier: Earlier
) -> list[Change]:
    """Return what the request proposes, without the groups that are protected, or used since an earlier try."""
    deletes = request.what == DELETION
    changes = await request.propose(admin, layout, earlier)
    tries = await asyncio.to_thread(earlier, await admin.cluster_id())
    changes = [tries.spare(change, deletes=deletes) for change in changes]
    protected = {change.group_id for change in changes if terms.protects(change.group_id)}
    why = "the connection protects it"
    if protected and deletes:
        failed = KafkaGroupsError(f"{why}: nothing was deleted")
        raise GroupsFailedError(dict.fromkeys(protected, failed), len(changes))
    return [replace(each, kept=why, after={}) if each.group_id in protected else each for each in changes]


def _known(ledger: Ledger, now: datetime) -> tuple[Mapping[str, KeptAlive], datetime]:
    """Return the groups that earlier changes and keep-alive runs want to stay, and ``Ledger.latest_time``.

    Where the ledger cannot be read, restores have to work all the same; nothing is deleted then.
    """
    with unless_warned(_NOT_KNOWN):
        return ledger.wanted(), ledger.latest_time(now)
    return {}, now


def _with_signs(
    ledger: Ledger, began: datetime, before_this: Mapping[str, KeptAlive], changes: Sequence[Change]
) -> list[Change]:
    """Return changes, with a sign for the groups that somebody uses since their new offsets were known."""
    asked = (change for change in changes if change.kept is None and not change.is_committed)
    since = {change.group_id: change.as_of or began for change in asked}
    alive: dict[str, str] = {}
    with unless_warned(_NOT_KNOWN):
        for group_id, sign in ledger.used(since, before_this).items():
            as_of = f"the offsets to set are of {since[group_id]:%Y-%m-%d %H:%M:%S %Z}"
            alive[group_id] = f"somebody uses it: {sign.reset().reason}, and {as_of}"
    return [replace(each, alive=alive[each.group_id]) if each.group_id in alive else each for each in changes]
