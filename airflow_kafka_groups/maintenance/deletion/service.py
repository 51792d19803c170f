"""Delete the groups of a plan, or groups that were named. Every doubt keeps a group.

1. The plan fits this cluster, this hour, the site's floors and what was approved.
2. The lease is taken; from here on no other run deletes on this cluster.
3. All groups are listed; a listing that lacks a broker ends the run.
4. The journal is read, and the snapshots since the judged one: what was deleted or found in use before is kept. The
   backup is read and verified once more.
5. The run's first journal entry is written; where it cannot be, nothing is deleted. What other runs did until then is
   read once more, and from then on they delete nothing.
6. The groups go chunk by chunk (``chunks``): intent, deletion, outcome.
7. The lease is given back, and what was deleted is looked for once more (``verify``).
8. The run's last entry is its record for people.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from airflow_kafka_groups.contracts.ids import new_id
from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError, MaintenanceError, PlanError
from airflow_kafka_groups.maintenance.backup.file import Backup, find_backup
from airflow_kafka_groups.maintenance.backup.planned import require_backup_of
from airflow_kafka_groups.maintenance.cluster_view import check_view
from airflow_kafka_groups.maintenance.deletion.approval import Approval, require_approval
from airflow_kafka_groups.maintenance.deletion.approval_rules import ApprovalTerms
from airflow_kafka_groups.maintenance.deletion.audit import read_history
from airflow_kafka_groups.maintenance.deletion.chunks import ChunkedDeletion
from airflow_kafka_groups.maintenance.deletion.exclusions import exclude, exclusions, spare, spare_new
from airflow_kafka_groups.maintenance.deletion.lease import RECENT, LeaseGuard, lease_record, other_leases
from airflow_kafka_groups.maintenance.deletion.newer_policy import kept_by_newer_policy
from airflow_kafka_groups.maintenance.deletion.newer_snapshots import in_use_since
from airflow_kafka_groups.maintenance.deletion.notice_guard import kept_unnoticed
from airflow_kafka_groups.maintenance.deletion.outcomes import DeletionReport, GroupOutcome, Outcome
from airflow_kafka_groups.maintenance.deletion.recheck import Decision, Expected
from airflow_kafka_groups.maintenance.deletion.request import DeletionRequest
from airflow_kafka_groups.maintenance.deletion.stop_switch import why_stopped
from airflow_kafka_groups.maintenance.deletion.verify import Verification, settle, verify_deleted
from airflow_kafka_groups.maintenance.floors import NO_FLOORS, SiteFloors
from airflow_kafka_groups.maintenance.journal.journal import Journal, RunJournal
from airflow_kafka_groups.maintenance.keep_alive.records import KeepAliveRecords
from airflow_kafka_groups.maintenance.plan.deletion_plan import (
    NAMED_BY_HAND,
    DeletionPlan,
    least_idle_times,
    load_plan,
    require_applicable,
)
from airflow_kafka_groups.maintenance.policy.policy_file import PolicyFile
from airflow_kafka_groups.maintenance.protocols import BackupAdmin
from airflow_kafka_groups.maintenance.storage import Layout, StoragePath


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionResult:
    """The result of a deletion: one outcome for each group, what was found afterwards, and where it is recorded."""

    report: DeletionReport
    verification: Verification | None
    record: StoragePath


async def delete_by_plan(
    admin: BackupAdmin,
    layout: Layout,
    plan_id: str,
    plan_digest: str,
    request: DeletionRequest,
    *,
    approval: ApprovalTerms | None = None,
    floors: SiteFloors = NO_FLOORS,
    policy: PolicyFile | Callable[[], PolicyFile | None] | None = None,
) -> DeletionResult:
    """Delete the groups of a plan that still are what the plan says.

    :param plan_digest: the plan's digest, as it was made or approved; another plan is refused.
    :param approval: when a person has to have approved it; the answer is read from the storage. Default: never.
    :param floors: what the site demands, whatever the plan says. Default: nothing.
    :param policy: the plan's policy file as it is now, or what reads it when the lease is held. A plan by a file is
        refused without it. Default: none.

    Raises ``PlanError``, ``BackupError``, ``SnapshotError``, ``JournalError``, ``StorageError`` or
    ``IncompleteListingError`` before anything is deleted. Afterwards it never raises for a group: each has its outcome,
    and what could not be recorded goes to the observer before ``StorageError`` is raised.
    """
    plan = await asyncio.to_thread(load_plan, layout, plan_id)
    if plan.digest != plan_digest:
        raise PlanError(f"plan {plan_id} is not the one that was asked for (its digest differs): make a new plan")
    floors.require(plan, dry_run=request.dry_run)
    if plan.snapshot_id == NAMED_BY_HAND:  # left over by a deletion by name: no floor of idle times was heeded
        floors.require_named(len(plan.groups), dry_run=request.dry_run)
    if protected := [group_id for group_id in plan.group_ids if request.protects(group_id)]:
        raise PlanError(
            f"plan {plan_id} names {len(protected)} group(s) that the connection protects, first {protected[0]!r}: "
            "make a new plan"
        )
    run = DeletionRun(
        admin=admin,
        layout=layout,
        request=request,
        request_id=plan_id,
        expected=[Expected.of_plan(group) for group in plan.groups],
        plan=plan,
        judged=True,
        approval=floors.approval(approval, plan),
        policy=policy if callable(policy) else lambda: policy,
    )
    async with request.lease() as lease:
        await run.delete(lease)
    return await run.finish()


@dataclass(kw_only=True)
class DeletionRun:
    """One run: ``delete`` while the lease is held, then ``finish``.

    :param request_id: what all tries of this deletion have in common.
    :param expected: the groups to delete, and what they have to look like still.
    :param plan: the plan; ``None`` for groups that were named and are not to be deleted after all, or in a dry run.
    :param judged: whether the plan was made by verdicts, so that idle times count.
    :param approval: when a person has to have approved the plan.
    :param policy: returns the plan's policy file as it is now.
    :param decided: the outcomes of groups that are known before.
    :param order: all groups in the order of the report. Default: as expected.
    """

    admin: BackupAdmin
    layout: Layout
    request: DeletionRequest
    request_id: str
    expected: Sequence[Expected]
    plan: DeletionPlan | None
    judged: bool = False
    approval: ApprovalTerms = field(default_factory=ApprovalTerms)
    policy: Callable[[], PolicyFile | None] = lambda: None
    decided: Mapping[str, GroupOutcome] = field(default_factory=dict)
    order: Sequence[str] = ()
    _ready: _Ready = field(init=False)
    _report: DeletionReport = field(init=False)

    async def delete(self, lease: LeaseGuard | None) -> None:
        """Delete what is expected, under the lease. Raises as ``delete_by_plan`` does, before anything is deleted."""
        started_at = self.request.now()
        cluster_id = await self.admin.cluster_id()
        warnings = await self._require_applicable(cluster_id)
        listings = (await self.admin.list_groups()).require_complete()
        self._ready = ready = await asyncio.to_thread(self._prepare, cluster_id, started_at, lease)
        chunks = ChunkedDeletion(
            self.admin,
            self.request,
            listings,
            ready.backup.entries if ready.backup is not None else {},
            ready.journal,
            excluded=ready.excluded,
            lease=lease,
            expired=self._expired,
            why_stopped=partial(self._why_stopped, ready),
        )
        warnings += other_leases([*listings, *ready.leases], self.request.lease_group_id)
        backed_up = ready.backup is not None
        outcomes = await chunks.run(
            [replace(group, needs_backup=group.needs_backup and backed_up) for group in self.expected]
        )
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
            warnings=(*warnings, *chunks.warnings),
            lease=lease_record(lease, dry_run=self.request.dry_run),
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
        require_applicable(self.plan, kafka_cluster_id=cluster_id, now=self.request.now())
        return await check_view(self.admin, self.plan.plan_id, self.plan.view)

    def _prepare(self, cluster_id: str | None, started_at: datetime, lease: LeaseGuard | None) -> _Ready:
        """Read approval, journal and backup as they are now, and begin the run in the journal."""
        request, plan, approval = self.request, self.plan, None
        if plan is not None and not request.dry_run:
            approval = require_approval(self.layout, plan, self.approval)
        journal = Journal(self.layout.base, cluster_id)
        history = read_history(self.layout, cluster_id)
        in_use = in_use_since(self.layout, plan) if plan is not None and self.judged else {}
        ruled_out = kept_by_newer_policy(plan, self.policy(), started_at) if plan is not None else {}
        backup = None if plan is None else _verified_backup(self.layout, plan, request.dry_run)
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
            "policy": plan.policy.to_json() if plan else None,
            "backup": backup.path if backup else None,
            "lease": None if lease is None else lease.record().to_json(),
            "groups": len(self.expected) + len(self.decided),
        }
        run = journal.begin(facts, request.now(), after=history)
        # A run without the lease, or with another one's name, may have gone on until now.
        newest = journal.refresh(history)
        records = KeepAliveRecords(self.layout, cluster_id)
        kept_alive = records.read() if self.judged else {}
        unnoticed = {} if plan is None else kept_unnoticed(self.layout, plan, newest, kept_alive, started_at)
        judged_at = plan.created_at if plan is not None and self.judged else None
        idle = least_idle_times(plan) if plan is not None else {}
        before = exclusions(newest, self.request_id, now=started_at, judged_at=judged_at, min_idle_seconds=idle)
        excluded = ruled_out | unnoticed | in_use | before
        excluded |= spare(kept_alive, started_at, judged_at or started_at, idle)
        if approval is not None:
            excluded |= exclude(approval.excluded, approval.approved_by)
        if self.decided:
            run.conclude(self.decided.values(), request.now())
        return _Ready(facts, run, excluded, backup, history.leases(started_at - RECENT), approval, records)

    def _why_stopped(self, ready: _Ready) -> str | None:
        """Return why the run ends: stop switch or another approval; exclude what somebody began to keep alive."""
        why = why_stopped(self.layout)
        if why is not None or self.plan is None:
            return why
        try:
            if self.judged:
                ready.excluded.update(spare_new(ready.kept_alive.read_new()))
            same = require_approval(self.layout, self.plan, self.approval) == ready.approval
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
            verification = await verify_deleted(self.admin, doubtful)
        except KafkaGroupsError as exc:
            self.request.observer.warning(f"the deletion could not be verified: {exc}")
            return report, None
        return settle(report, verification), verification

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
    """What a run has before it reads the first group."""

    facts: Mapping[str, Any]
    journal: RunJournal
    excluded: dict[str, Decision]
    backup: Backup | None
    leases: Set[str]
    approval: Approval | None
    kept_alive: KeepAliveRecords


def _verified_backup(layout: Layout, plan: DeletionPlan, dry_run: bool) -> Backup | None:
    """Read and verify the plan's backup; a dry run may come before there is one."""
    backup = find_backup(layout, plan.plan_id)
    if backup is None:
        if dry_run:
            return None
        raise ConfigurationError("backup", None, "back up the plan first: nothing is deleted without a backup")
    return require_backup_of(backup, plan)
