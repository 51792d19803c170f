"""One run that deletes groups, or topics of groups, under the lease and with the journal. Every doubt keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.change.backup.file import Backup
from airflow_kafka_groups.change.backup.make_backup import back_up_plan, find_backup_of
from airflow_kafka_groups.change.deletion.chunk_loop import ChunkedDeletion
from airflow_kafka_groups.change.deletion.chunk_reader import ChunkReader, offsets_in_snapshot
from airflow_kafka_groups.change.deletion.guards.exclusions import (
    NamedSigns,
    exclude,
    kept_by_records,
    of_targets,
    spare_new,
)
from airflow_kafka_groups.change.deletion.guards.newer_policy import kept_by_newer_policy
from airflow_kafka_groups.change.deletion.guards.newer_snapshots import in_use_since
from airflow_kafka_groups.change.deletion.guards.stop_switch import why_stopped
from airflow_kafka_groups.change.deletion.request import DeletionRequest
from airflow_kafka_groups.change.deletion.verify import Verification, settle, verify_targets
from airflow_kafka_groups.change.lease import RECENT, LeaseGuard, other_leases
from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError, MaintenanceError, PlanError
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
from airflow_kafka_groups.judge.policy.quiet_times import QuietTimes
from airflow_kafka_groups.kafka.models import GroupOffsets
from airflow_kafka_groups.ledger.approval import Approval, require_approval
from airflow_kafka_groups.ledger.approval_rules import ApprovalTerms
from airflow_kafka_groups.ledger.deletion_plan import PRUNING, DeletionPlan, load_plan, require_all_seen, require_here
from airflow_kafka_groups.ledger.floors import NO_FLOORS, SiteFloors
from airflow_kafka_groups.ledger.history import DeletionHistory
from airflow_kafka_groups.ledger.journal import Journal, RunJournal, read_history
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.life.signs import SignOfLife
from airflow_kafka_groups.ledger.outcomes import DeletionReport, GroupOutcome, Outcome
from airflow_kafka_groups.ledger.plan_rows import Target
from airflow_kafka_groups.storage.formats import plain
from airflow_kafka_groups.storage.layout import Layout, StoragePath
from airflow_kafka_groups.storage.paths import new_id

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient


Exclusions = Callable[[DeletionHistory], dict[str, GroupOutcome]]
"""Returns what is kept whatever is found, by the journal as it is when the run has begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionResult:
    """The result of a deletion: one outcome for each group, what was found afterwards, and where it is recorded."""

    report: DeletionReport
    verification: Verification | None
    record: StoragePath


@dataclass(kw_only=True)
class DeletionRun:
    """One run: ``delete`` while the lease is held, then ``finish``.

    :param expected: what to delete, and what it has to look like still.
    :param plan: the plan; ``None`` for groups that were named and are not to be deleted after all, or in a dry run.
    :param policy: returns the plan's policy file as it is now. It is read once, when the lease is held.
    :param ledger: where it was not judged: the one that was asked when the groups were named. Keep-alive runs and
        restores that are recorded later count. Default: all do.
    :param signs: where it was not: which groups the ledger knows to be alive. Default: none.
    :param observed: the offsets of groups that were named, as they were seen first. Default: none.
    :param order: all names in the order of the report. Default: as expected.
    """

    admin: MaintenanceClient
    layout: Layout
    request: DeletionRequest
    request_id: str
    expected: Sequence[Target]
    plan: DeletionPlan | None
    approval: ApprovalTerms = field(default_factory=ApprovalTerms)
    policy: Callable[[], PolicyFile | None] = lambda: None
    ledger: Ledger | None = None
    signs: NamedSigns | None = None
    observed: Mapping[str, GroupOffsets] = field(default_factory=dict)
    decided: Mapping[str, GroupOutcome] = field(default_factory=dict)
    order: Sequence[str] = ()
    _ready: _Ready = field(init=False)
    _report: DeletionReport = field(init=False)

    def _exclusions(
        self, ledger: Ledger, cluster_id: str | None, started_at: datetime, file: PolicyFile | None
    ) -> Exclusions:
        """Read newer snapshots, and the journal; judge by the policy as it is now."""
        plan, in_use = self.plan, dict[str, GroupOutcome]()
        seen: Mapping[str, SignOfLife] = {}
        if plan is not None and plan.judged:
            in_use = in_use_since(ledger, plan)
            if not plan.prunes:
                signs = ledger.seen(plan.group_ids, plan.idle_from)
                seen = {group_id: sign for group_id, sign in signs.items() if group_id not in in_use}
        if self.signs is not None:  # once more: a snapshot may have been taken while the groups were watched
            names = [target.name for target in self.expected]
            in_use = self.signs.alive(cluster_id, names, started_at)
        ruled_out = kept_by_newer_policy(plan, file) if plan is not None else {}

        def excluded(newest: DeletionHistory) -> dict[str, GroupOutcome]:
            kept_alive = ledger.wanted() if plan is not None and plan.judged else {}
            how = (self.layout, plan, self.request_id, newest, kept_alive, started_at)
            return ruled_out | in_use | kept_by_records(*how, seen=seen)

        return excluded

    def _excluded_since(self, ready: _Ready, plan: DeletionPlan) -> dict[str, GroupOutcome]:
        """Return what somebody began to keep alive during the run, or what a snapshot shows in use since."""
        in_use = in_use_since(ready.ledger, plan) if plan.judged else {}
        if self.signs is not None:
            in_use = self.signs.seen(plan.kafka_cluster_id, plan.group_ids, self.request.now())
        return in_use | of_targets(plan, spare_new(ready.ledger.wanted_since()))

    def _backup(self) -> Backup | None:
        """Read and verify the plan's backup; a dry run may come before there is one."""
        if self.plan is None:
            return None
        backup = find_backup_of(self.layout, self.plan)
        if backup is None and not self.request.dry_run:
            raise ConfigurationError("backup", None, "back up the plan first: nothing is deleted without a backup")
        return backup

    def _judged(self, group_ids: Collection[str]) -> Mapping[str, GroupOffsets]:
        if self.plan is None or not self.plan.judged:
            return self.observed
        return offsets_in_snapshot(self.layout, self.plan.snapshot_id, group_ids)

    async def delete(self, lease: LeaseGuard | None) -> None:
        """Delete what is expected, under the lease. Raises ``KafkaGroupsError`` before anything is deleted."""
        started_at = self.request.now()
        cluster_id = await self.admin.cluster_id()
        warnings = await self._require_applicable(cluster_id)
        if lease is not None:
            lease.require_cluster(cluster_id)
        listings = (await self.admin.list_groups()).require_complete()
        self._ready = ready = await asyncio.to_thread(self._prepare, cluster_id, started_at, lease)
        entries = None if ready.backup is None else ready.backup.entries
        reader = ChunkReader(
            self.admin,
            listings,
            entries,
            ready.excluded,
            self.request.limits.max_read_age_seconds,
            self.request.monotonic,
            self.plan is None or self.plan.policy.allow_hidden_topics,
            self._judged,
        )
        chunks = ChunkedDeletion(
            self.admin,
            reader,
            self.request,
            entries or {},
            ready.journal,
            lease=lease,
            expired=self._expired,
            why_stopped=partial(self._why_stopped, ready),
        )
        warnings += other_leases([*listings, *ready.leases], self.request.lease_group_id)
        outcomes = await chunks.run(self.expected)
        watched = () if self.signs is None or self.signs.watched is None else (self.signs.watched,)
        by_id = {**self.decided, **{outcome.group_id: outcome for outcome in outcomes}}
        self._report = DeletionReport(
            plan_id=self.plan.plan_id if self.plan else None,
            plan_digest=self.plan.digest if self.plan else None,
            cluster=self.layout.cluster,
            dry_run=self.request.dry_run,
            started_at=started_at,
            finished_at=self.request.now(),
            outcomes=tuple(by_id[group_id] for group_id in self.order or by_id),
            backup=ready.backup.path if ready.backup is not None else None,
            warnings=(*watched, *warnings, *chunks.warnings),
            lease=None if lease is None or self.request.dry_run else lease.record(),
        )

    async def finish(self) -> DeletionResult:
        """Look once more for what was deleted, and record the end. Raises ``StorageError`` or ``JournalError``."""
        report, verification = await self._verified(self._report)
        record = await asyncio.to_thread(self._record, self._ready, report, verification)
        return DeletionResult(report=report, verification=verification, record=record)

    async def _require_applicable(self, cluster_id: str | None) -> tuple[str, ...]:
        """Return what speaks against this cluster without being a reason to stop."""
        if self.plan is None:
            return ()
        warnings = await require_here(self.admin, self.plan, cluster_id, self.request.now())
        await require_all_seen(self.admin, self.plan)
        return warnings

    def _prepare(self, cluster_id: str | None, started_at: datetime, lease: LeaseGuard | None) -> _Ready:
        """Read approval, journal and backup as they are now, and begin the run in the journal."""
        request, plan, approval = self.request, self.plan, None
        ledger = self.ledger or Ledger(self.layout, cluster_id)
        if plan is not None and not request.dry_run:
            approval = require_approval(ledger, plan, self.approval)
        history = read_history(self.layout, cluster_id)
        file = None if plan is None else self.policy()
        quiet = self._quiet_times(file, started_at)
        exclusions = self._exclusions(ledger, cluster_id, started_at, file)
        backup = self._backup()
        facts = {
            "run_id": new_id(started_at),
            "request_id": self.request_id,
            "plan_id": plan.plan_id if plan else None,
            "plan_digest": plan.digest if plan else None,
            "cluster": self.layout.cluster,
            "dry_run": request.dry_run,
            "started_at": started_at.isoformat(),
            "actor": dict(request.actor),
            "approval": None if approval is None else approval.to_json(),
            "policy": plain(plan.policy) if plan else None,
            "backup": backup.path if backup else None,
            "lease": None if lease is None else lease.record().to_json(),
            "groups": len(self.expected) + len(self.decided),
            "request_seconds": request.limits.max_read_age_seconds + request.limits.max_delete_seconds,
            **({"what": PRUNING} if plan is not None and plan.prunes else {}),
        }
        run = Journal(self.layout.base, cluster_id).begin(facts, request.now(), after=history)
        # A run without the lease, or with another one's name, may have gone on until now.
        excluded = exclusions(ledger.history())
        if approval is not None:
            excluded |= exclude(approval.excluded, approval.approved_by)
        if self.decided:
            run.conclude(self.decided.values(), request.now())
        return _Ready(facts, run, ledger, excluded, backup, history.leases(started_at - RECENT), approval, quiet)

    def _quiet_times(self, file: PolicyFile | None, now: datetime) -> QuietTimes:
        """Return when nothing is deleted; a dry run is never held up. Raises ``QuietTimeError`` and ``PolicyError``."""
        if file is None or self.plan is None:
            return QuietTimes()
        file.require_cluster(self.layout.cluster)
        if self.request.dry_run:
            return QuietTimes()
        file.quiet.require_over(now, self.plan.expires_at)
        return file.quiet

    def _why_stopped(self, ready: _Ready) -> str | None:
        """Return why the run ends: switch, quiet time, other approval; exclude what was used or kept alive since."""
        now = self.request.now()
        leaves_by = now + timedelta(seconds=self.request.limits.max_read_age_seconds)
        why = why_stopped(self.layout) or ready.quiet.why_quiet(now) or ready.quiet.why_quiet(leaves_by)
        if why is not None or self.plan is None:
            return why
        try:
            ready.excluded.update(self._excluded_since(ready, self.plan))
            same = require_approval(ready.ledger, self.plan, self.approval) == ready.approval
        except MaintenanceError as exc:
            return str(exc)
        return None if same else "the plan was approved once more during the run: clear the task to go by that answer"

    def _expired(self) -> bool:
        return self.plan is not None and self.request.now() >= self.plan.expires_at

    async def _verified(self, report: DeletionReport) -> tuple[DeletionReport, Verification | None]:
        doubtful = report.ids(Outcome.DELETED, Outcome.UNKNOWN)
        if self.request.dry_run or not doubtful:
            return report, None
        try:
            names = frozenset(doubtful)
            verification = await verify_targets(self.admin, [each for each in self.expected if each.name in names])
        except KafkaGroupsError as exc:
            self.request.observer.warning(f"the deletion could not be verified: {exc}")
            return report, None
        noun = "topic(s) of groups" if self.plan is not None and self.plan.prunes else "group(s)"
        return settle(report, verification, noun), verification

    def _record(self, ready: _Ready, report: DeletionReport, verification: Verification | None) -> StoragePath:
        record = {
            **ready.facts,
            **report.summary(),
            "seconds": round((report.finished_at - report.started_at).total_seconds(), 3),
            "verification": None if verification is None else verification.to_json(),
        }
        try:
            return ready.journal.end(report.outcomes, record, self.request.now())
        except MaintenanceError:
            self.request.observer.not_recorded({**record, "outcomes": [item.to_json() for item in report.outcomes]})
            raise


@dataclass(frozen=True, slots=True)
class _Ready:
    facts: Mapping[str, Any]
    journal: RunJournal
    ledger: Ledger
    excluded: dict[str, GroupOutcome]
    backup: Backup | None
    leases: Set[str]
    approval: Approval | None
    quiet: QuietTimes


TOPIC_CHUNK_SIZE = 100
"""Each topic is a request of its own, so fewer are in doubt if a process dies."""


async def delete_by_plan(
    admin: MaintenanceClient,
    layout: Layout,
    plan_id: str,
    plan_digest: str,
    request: DeletionRequest,
    *,
    prunes: bool = False,
    approval: ApprovalTerms | None = None,
    floors: SiteFloors = NO_FLOORS,
    policy: Callable[[], PolicyFile | None] = lambda: None,
) -> DeletionResult:
    """Delete what a plan names, and what still is as the plan says.

    The offsets of topics are backed up before; a dry run neither backs up nor deletes. Each topic has its outcome, by
    ``name_of``.

    :param plan_digest: the plan's digest, as it was made or approved; another plan is refused.
    :param prunes: whether it is a plan of topics. Default: of groups.
    :param approval: when a person has to have approved it; the answer is read from the storage. Default: never.
    :param floors: what the site demands, whatever the plan says. Default: nothing.
    :param policy: reads the plan's policy file as it is now, when the lease is held. A plan by a file is refused
        without it. Default: there is none.

    Raises ``PlanError``, ``BackupError``, ``SnapshotError``, ``JournalError``, ``StorageError`` or
    ``IncompleteListingError`` before anything is deleted. Afterwards it never raises for a group: each has its outcome,
    and what could not be recorded goes to the observer before ``StorageError`` is raised.
    """
    plan = await asyncio.to_thread(load_plan, layout, plan_id, prunes=prunes)
    plan.require_digest(plan_digest)
    floors.require(plan, dry_run=request.dry_run)
    if not plan.judged:  # left over by a deletion by name: no floor of idle times was heeded
        floors.require_named(plan.group_count, dry_run=request.dry_run)
        raise PlanError(
            f"plan {plan.plan_id} is of groups that were named, and nobody has judged them: name them again"
        )
    plan.require_unprotected(request.protects)
    run = DeletionRun(
        admin=admin,
        layout=layout,
        request=request,
        request_id=plan.plan_id,
        expected=list(plan.targets()),
        plan=plan,
        approval=floors.approval(approval, plan),
        policy=policy,
    )
    async with request.lease() as lease:
        if prunes and not request.dry_run:
            await back_up_plan(admin, layout, plan, now=request.now)
        await run.delete(lease)
    return await run.finish()
