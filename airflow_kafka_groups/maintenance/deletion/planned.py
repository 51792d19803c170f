"""Delete the groups of a plan: chunk by chunk, each group read again a moment before, and stopped at the first doubt.

1. The plan must fit this cluster, this hour and what was approved; the backup must be the plan's own.
2. All groups are listed. A listing that lacks a broker ends the run before anything is deleted.
3. For each chunk: describe, read offsets, ask the fence, delete what passes. The last reading is less than
   ``max_read_age_seconds`` old when the delete request leaves; if it is older, the chunk is read once more.
4. With a lease (``options.lease``), it has to be held before each chunk, right before each delete request, and while
   that is under way. Once it is lost nothing more is deleted.
5. Every group has exactly one outcome. What has no clear answer is ``unknown``; ``verify`` looks again.

A dry run does all of it except for the delete request, and needs no lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from airflow_kafka_groups.admin.results import GroupListings, GroupResult, GroupResults
from airflow_kafka_groups.exceptions import (
    ConfigurationError,
    KafkaGroupsError,
    LeaseLostError,
    MissingAnswerError,
    OutcomeUnknownError,
)
from airflow_kafka_groups.maintenance.backup.file import Backup, BackupEntry
from airflow_kafka_groups.maintenance.backup.planned import require_backup_of
from airflow_kafka_groups.maintenance.checks import check_integer, check_seconds
from airflow_kafka_groups.maintenance.deletion.lease import LeaseGuard, lease_record
from airflow_kafka_groups.maintenance.deletion.outcomes import (
    DeletionReport,
    GroupOutcome,
    kept,
    of_decision,
    of_deletion,
    would_delete,
)
from airflow_kafka_groups.maintenance.deletion.recheck import Action, Decision, Expected, Reading, Reason, decide
from airflow_kafka_groups.maintenance.plan.deletion_plan import DeletionPlan, require_applicable
from airflow_kafka_groups.maintenance.protocols import GroupAdmin, read_offsets
from airflow_kafka_groups.maintenance.storage import Clock, Progress, ignore_progress, utc_now
from airflow_kafka_groups.membership import clock
from airflow_kafka_groups.models import GroupDescription, GroupOffsets

CHUNK_SIZE = 100
MAX_READ_AGE_SECONDS = 15.0
MAX_DELETE_SECONDS = 30.0
_READ_TRIES = 2


def never_stop() -> bool:
    """Go on: the default of every ``stop`` argument."""
    return False


async def do_nothing() -> None:
    """Do nothing before the first group is touched."""


def ignore_chunk(outcomes: Sequence[GroupOutcome]) -> None:
    """Do nothing: the default of every ``on_chunk`` argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionOptions:
    """Say how a deletion goes about it.

    :param chunk_size: groups read and deleted together, at least 1. Default 100.
    :param max_read_age_seconds: how old the last reading of a group may be when the delete request leaves. Default 15.
    :param max_delete_seconds: how long one delete request may take, tries of the client included: a coordinator that is
        loading must not make it come minutes after the last reading. Default 30.
    :param now: gives the time of day.
    :param monotonic: gives seconds that only grow, also while the machine sleeps: what was read before is old then.
    :param progress: called with (stage, done, total).
    :param before: awaited once, before the first group is touched; not in a dry run. What it raises ends the run: one
        that cannot be recorded is to delete nothing.
    :param on_chunk: called with the outcomes of each chunk as soon as they are known, to log or store them.
    :param stop: asked before each chunk; true keeps all groups that are left.
    :param lease: the lease to hold to, from ``deletion_lease()``. Default: none; another run may delete meanwhile.
    """

    chunk_size: int = CHUNK_SIZE
    max_read_age_seconds: float = MAX_READ_AGE_SECONDS
    max_delete_seconds: float = MAX_DELETE_SECONDS
    now: Clock = field(default=utc_now)
    monotonic: Callable[[], float] = field(default=clock.now)
    progress: Progress = field(default=ignore_progress)
    before: Callable[[], Awaitable[None]] = field(default=do_nothing)
    on_chunk: Callable[[Sequence[GroupOutcome]], None] = field(default=ignore_chunk)
    stop: Callable[[], bool] = field(default=never_stop)
    lease: LeaseGuard | None = None

    def __post_init__(self) -> None:
        check_integer("chunk_size", self.chunk_size, 1, "give a whole number of groups, at least 1")
        check_seconds("max_read_age_seconds", self.max_read_age_seconds)
        check_seconds("max_delete_seconds", self.max_delete_seconds)


DEFAULT_OPTIONS = DeletionOptions()


async def delete_planned(
    admin: GroupAdmin,
    plan: DeletionPlan,
    backup: Backup | None,
    *,
    dry_run: bool,
    approved_digest: str | None = None,
    options: DeletionOptions = DEFAULT_OPTIONS,
) -> DeletionReport:
    """Delete the groups of a plan that still are what the plan says.

    :param backup: the verified backup of this plan; ``None`` only for a dry run, which then does not ask for one.
    :param dry_run: do everything except for deleting.
    :param approved_digest: the digest that was approved; another plan is refused.
    :param options: chunk size, clocks and callbacks.

    Raises ``PlanError``, ``BackupError`` or ``IncompleteListingError`` before anything is deleted. Afterwards it never
    raises for a group: each has its outcome.
    """
    started_at = options.now()
    cluster_id = await admin.cluster_id()
    require_applicable(plan, kafka_cluster_id=cluster_id, now=started_at, approved_digest=approved_digest)
    if backup is not None:
        require_backup_of(backup, plan)
    elif not dry_run:
        raise ConfigurationError("backup", None, "back up the plan first: nothing is deleted without a backup")
    entries = backup.entries if backup is not None else {}
    expected = [
        Expected(
            group_id=group.group_id,
            group_type=group.group_type,
            protocol_type=group.protocol_type,
            fingerprint=group.fingerprint,
            needs_backup=backup is not None,
        )
        for group in plan.groups
    ]
    listings = (await admin.list_groups()).require_complete()
    run = DeletionRun(
        admin,
        options,
        listings,
        entries,
        dry_run=dry_run,
        expired=lambda: options.now() >= plan.expires_at,
    )
    outcomes = await run.delete(expected)
    return DeletionReport(
        plan_id=plan.plan_id,
        plan_digest=plan.digest,
        cluster=plan.cluster,
        dry_run=dry_run,
        started_at=started_at,
        finished_at=options.now(),
        outcomes=tuple(outcomes),
        backup=backup.path if backup is not None else None,
        warnings=tuple(run.warnings),
        lease=lease_record(options.lease, dry_run=dry_run),
    )


class DeletionRun:
    """Go through the chunks of one deletion.

    :param listings: a complete listing of all groups, made at the start of this run.
    :param entries: what is backed up, by group id.
    :param dry_run: do everything except for deleting.
    :param expired: says whether it has become too late to delete.
    """

    def __init__(
        self,
        admin: GroupAdmin,
        options: DeletionOptions,
        listings: GroupListings,
        entries: Mapping[str, BackupEntry],
        *,
        dry_run: bool,
        expired: Callable[[], bool] = never_stop,
    ) -> None:
        self._admin = admin
        self._options = options
        self._listings = listings
        self._entries = entries
        self._dry_run = dry_run
        self._lease = None if dry_run else options.lease
        self._expired = expired
        self.warnings: list[str] = []

    async def delete(self, expected: Sequence[Expected]) -> list[GroupOutcome]:
        """Give one outcome for each group, in the order given."""
        outcomes: list[GroupOutcome] = []
        if expected and not self._dry_run:
            await self._options.before()
        for chunk in _chunks(expected, self._options.chunk_size):
            of_chunk = await self._held_back(chunk) or await self._delete_chunk(chunk)
            by_id = {outcome.group_id: outcome for outcome in of_chunk}
            ordered = [by_id[group.group_id] for group in chunk]
            outcomes.extend(ordered)
            self._options.on_chunk(ordered)
            self._options.progress("delete", len(outcomes), len(expected))
        return outcomes

    async def _held_back(self, chunk: Sequence[Expected]) -> list[GroupOutcome]:
        """Keep the chunk without asking the cluster, if the run has to end here."""
        if self._lease is not None and (lost := await self._lease.why_lost()) is not None:
            self._warn(lost)
            return [kept(group.group_id, Reason.LEASE_LOST, f"not begun: {lost}") for group in chunk]
        if self.warnings:
            return [kept(group.group_id, Reason.STOPPED, f"the run stopped: {self.warnings[0]}") for group in chunk]
        if self._expired():
            return [kept(group.group_id, Reason.EXPIRED, "the plan expired during the run") for group in chunk]
        if self._options.stop():
            return [kept(group.group_id, Reason.STOPPED, "the run was asked to stop") for group in chunk]
        return []

    async def _delete_chunk(self, chunk: Sequence[Expected]) -> list[GroupOutcome]:
        for _ in range(_READ_TRIES):
            read_from = self._options.monotonic()
            try:
                decisions, offsets = await self._read_and_decide(chunk)
            except KafkaGroupsError as exc:
                self.warnings.append(f"reading failed: {exc}")
                return [kept(group.group_id, Reason.UNREADABLE, f"reading failed: {exc}") for group in chunk]
            safe = [group_id for group_id, decision in decisions.items() if decision.action is Action.DELETE]
            held = [of_decision(id_, decision) for id_, decision in decisions.items() if id_ not in set(safe)]
            if self._dry_run:
                return held + [would_delete(group_id, decisions[group_id]) for group_id in safe]
            if not safe:
                return held
            if self._options.monotonic() - read_from <= self._options.max_read_age_seconds:
                return held + await self._delete_now({group_id: offsets[group_id] for group_id in safe})
        too_slow = f"reading took longer than {self._options.max_read_age_seconds:g} s: too old to delete by"
        return held + [kept(group_id, Reason.TOO_SLOW, too_slow) for group_id in safe]

    async def _read_and_decide(
        self, chunk: Sequence[Expected]
    ) -> tuple[dict[str, Decision], dict[str, GroupResult[GroupOffsets]]]:
        ids = [group.group_id for group in chunk]
        described, offsets = await read_groups(self._admin, ids)
        decisions = {
            group.group_id: decide(
                group,
                Reading(
                    listing=self._listings.get(group.group_id),
                    description=described.get(group.group_id),
                    offsets=offsets.get(group.group_id),
                ),
                self._entries.get(group.group_id),
            )
            for group in chunk
        }
        return decisions, offsets

    async def _delete_now(self, read: Mapping[str, GroupResult[GroupOffsets]]) -> list[GroupOutcome]:
        seconds = self._options.max_delete_seconds
        group_ids = list(read)
        known = {group_id: result.unwrap() for group_id, result in read.items()}
        try:
            if self._lease is not None:
                self._lease.check()
        except LeaseLostError as exc:
            self._warn(str(exc))
            return [kept(group_id, Reason.LEASE_LOST, f"not sent: {exc}") for group_id in group_ids]

        def delete() -> Awaitable[GroupResults[None]]:
            # What was read a moment ago also says how much the broker will have to write.
            return self._admin.delete_consumer_groups(group_ids, offsets=known)

        try:
            async with asyncio.timeout(seconds):
                results = await (delete() if self._lease is None else self._lease.run_while_held(delete))
        except KafkaGroupsError as exc:
            return self._lost(group_ids, f"deleting failed: {exc}")
        except TimeoutError:
            return self._lost(group_ids, f"deleting took longer than {seconds:g} s and was given up")
        return [of_deletion(group_id, _error(results, group_id)) for group_id in group_ids]

    def _warn(self, why: str) -> None:
        if why not in self.warnings:
            self.warnings.append(why)

    def _lost(self, group_ids: list[str], why: str) -> list[GroupOutcome]:
        self.warnings.append(why)
        return [of_deletion(group_id, OutcomeUnknownError(why)) for group_id in group_ids]


async def read_groups(
    admin: GroupAdmin, group_ids: list[str]
) -> tuple[GroupResults[GroupDescription], dict[str, GroupResult[GroupOffsets]]]:
    """Describe groups and read their offsets at the same time."""

    async def offsets() -> dict[str, GroupResult[GroupOffsets]]:
        return {result.group_id: result async for result in read_offsets(admin, group_ids, require_stable=True)}

    described, read = await asyncio.gather(admin.describe_consumer_groups(group_ids), offsets(), return_exceptions=True)
    if isinstance(described, BaseException):
        raise described
    if isinstance(read, BaseException):
        raise read
    return described, read


def _error(results: GroupResults[None], group_id: str) -> KafkaGroupsError | None:
    result = results.get(group_id)
    return MissingAnswerError(f"{group_id!r} was not in the answer") if result is None else result.error


def _chunks(items: Sequence[Expected], size: int) -> Iterator[Sequence[Expected]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
