"""One run that deletes by a plan, under the lease and with the journal: what deletions and prunings have in common.

1. The lease is taken; from here on no other run deletes on this cluster.
2. All groups are listed; a listing that lacks a broker ends the run.
3. In quiet hours or on a holiday of the policy, the run ends. The journal is read: what was deleted or found in use
   before is kept. The backup is read and verified once more.
4. The run's first journal entry is written; where it cannot be, nothing is deleted. What other runs did until then is
   read once more, and from then on they delete nothing.
5. The work goes chunk by chunk (``chunks``): intent, deletion, outcome. It stops where a request could still leave when
   a quiet time has begun.
6. The lease is given back, and what was deleted is looked for once more.
7. The run's last entry is its record for people.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ClassVar

from airflow_kafka_groups.change.backup.file import Backup
from airflow_kafka_groups.change.deletion.chunk_loop import ChunkedDeletion, ChunkWork
from airflow_kafka_groups.change.deletion.guards.exclusions import exclude
from airflow_kafka_groups.change.deletion.guards.stop_switch import why_stopped
from airflow_kafka_groups.change.deletion.request import DeletionRequest
from airflow_kafka_groups.change.deletion.verify import Verification, settle
from airflow_kafka_groups.change.lease import RECENT, LeaseGuard, lease_record, other_leases
from airflow_kafka_groups.exceptions import KafkaGroupsError, MaintenanceError
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
from airflow_kafka_groups.judge.policy.quiet_times import QuietTimes
from airflow_kafka_groups.kafka.admin.results import GroupListings
from airflow_kafka_groups.ledger.approval import Approval, require_approval
from airflow_kafka_groups.ledger.approval_rules import ApprovalTerms
from airflow_kafka_groups.ledger.audit import read_history
from airflow_kafka_groups.ledger.journal.history import DeletionHistory
from airflow_kafka_groups.ledger.journal.journal import Journal, RunJournal
from airflow_kafka_groups.ledger.outcomes import Decision, DeletionReport, GroupOutcome, Outcome
from airflow_kafka_groups.ledger.plan_rows import CommittedGroup
from airflow_kafka_groups.ledger.sealed_plan import SealedPlan, require_all_seen, require_here
from airflow_kafka_groups.observe.protocols import BackupAdmin
from airflow_kafka_groups.storage.layout import Layout, StoragePath
from airflow_kafka_groups.storage.paths import new_id

Exclusions = Callable[[DeletionHistory], dict[str, Decision]]
"""Returns what is kept whatever is found, by the journal as it is when the run has begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionResult:
    """The result of a deletion: one outcome for each group, what was found afterwards, and where it is recorded."""

    report: DeletionReport
    verification: Verification | None
    record: StoragePath


@dataclass(kw_only=True)
class SealedRun(ABC):
    """One run: ``delete`` while the lease is held, then ``finish``.

    :param request_id: what all tries of this deletion have in common.
    :param expected: what to delete, and what it has to look like still.
    :param plan: the plan; ``None`` for groups that were named and are not to be deleted after all, or in a dry run.
    :param approval: when a person has to have approved the plan.
    :param policy: returns the plan's policy file as it is now. It is read once, when the lease is held.
    :param decided: outcomes that are known before.
    :param order: all names in the order of the report. Default: as expected.
    """

    noun: ClassVar[str] = "group(s)"

    admin: BackupAdmin
    layout: Layout
    request: DeletionRequest
    request_id: str
    expected: Sequence[CommittedGroup]
    plan: SealedPlan | None
    approval: ApprovalTerms = field(default_factory=ApprovalTerms)
    policy: Callable[[], PolicyFile | None] = lambda: None
    decided: Mapping[str, GroupOutcome] = field(default_factory=dict)
    order: Sequence[str] = ()
    _ready: _Ready = field(init=False)
    _report: DeletionReport = field(init=False)

    @abstractmethod
    def exclusions(self, cluster_id: str | None, started_at: datetime, file: PolicyFile | None) -> Exclusions:
        """Read what may speak against the plan, before the run begins. Raises ``MaintenanceError``."""

    @abstractmethod
    def excluded_since(self) -> dict[str, Decision]:
        """Return what is to be kept since ``exclusions`` was read, before each intent. Raises ``MaintenanceError``."""

    @abstractmethod
    def verified_backup(self) -> Backup | None:
        """Read and verify the backup; ``None`` where there is none and none is needed. Raises ``KafkaGroupsError``."""

    @abstractmethod
    def work(
        self, listings: GroupListings, entries: Mapping[str, CommittedGroup] | None, excluded: Mapping[str, Decision]
    ) -> ChunkWork:
        """Return how chunks are read and deleted."""

    @abstractmethod
    async def verify(self, names: Iterable[str]) -> Verification:
        """Look once more for what should be gone. Raises ``KafkaGroupsError``."""

    def more_facts(self) -> dict[str, Any]:
        """Return further fields of the run's journal entries."""
        return {}

    def more_warnings(self) -> tuple[str, ...]:
        """Return further warnings of the run's report."""
        return ()

    @property
    def may_be_hidden(self) -> bool:
        """Whether topics may be hidden from this user."""
        return self.plan is None or self.plan.policy.allow_hidden_topics

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
        chunks = ChunkedDeletion(
            self.work(listings, entries, ready.excluded),
            self.request,
            entries or {},
            ready.journal,
            lease=lease,
            expired=self._expired,
            why_stopped=partial(self._why_stopped, ready),
        )
        warnings += other_leases([*listings, *ready.leases], self.request.lease_group_id)
        outcomes = await chunks.run(self.expected)
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
            warnings=(*self.more_warnings(), *warnings, *chunks.warnings),
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
        warnings = await require_here(self.admin, self.plan, cluster_id, self.request.now())
        await require_all_seen(self.admin, self.plan)
        return warnings

    def _prepare(self, cluster_id: str | None, started_at: datetime, lease: LeaseGuard | None) -> _Ready:
        """Read approval, journal and backup as they are now, and begin the run in the journal."""
        request, plan, approval = self.request, self.plan, None
        if plan is not None and not request.dry_run:
            approval = require_approval(self.layout, plan, self.approval)
        journal = Journal(self.layout.base, cluster_id)
        history = read_history(self.layout, cluster_id)
        file = None if plan is None else self.policy()
        quiet = self._quiet_times(file, started_at)
        exclusions = self.exclusions(cluster_id, started_at, file)
        backup = self.verified_backup()
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
            "request_seconds": request.limits.max_read_age_seconds + request.limits.max_delete_seconds,
            **self.more_facts(),
        }
        run = journal.begin(facts, request.now(), after=history)
        # A run without the lease, or with another one's name, may have gone on until now.
        newest = journal.refresh(history)
        excluded = exclusions(newest)
        if approval is not None:
            excluded |= exclude(approval.excluded, approval.approved_by)
        if self.decided:
            run.conclude(self.decided.values(), request.now())
        return _Ready(facts, run, excluded, backup, history.leases(started_at - RECENT), approval, quiet)

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
            ready.excluded.update(self.excluded_since())
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
            verification = await self.verify(doubtful)
        except KafkaGroupsError as exc:
            self.request.observer.warning(f"the deletion could not be verified: {exc}")
            return report, None
        return settle(report, verification, self.noun), verification

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
    quiet: QuietTimes
