"""Delete the groups of a plan, or groups that were named. Every doubt keeps a group.

The plan has to fit this cluster, this hour, the site's floors and what was approved. ``sealed_run`` has the steps of a
run. Here is what keeps groups beside the journal: snapshots since the judged one, the policy as it is now, notices and
keep-alive runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from airflow_kafka_groups.change.backup.file import Backup, find_backup
from airflow_kafka_groups.change.backup.make_backup import require_backup_of
from airflow_kafka_groups.change.deletion.chunk_loop import ChunkWork
from airflow_kafka_groups.change.deletion.guards.exclusions import kept_by_records, spare_new
from airflow_kafka_groups.change.deletion.guards.named_signs import NamedSigns
from airflow_kafka_groups.change.deletion.guards.newer_policy import kept_by_newer_policy
from airflow_kafka_groups.change.deletion.guards.newer_snapshots import in_use_since
from airflow_kafka_groups.change.deletion.request import DeletionRequest
from airflow_kafka_groups.change.deletion.sealed_run import DeletionResult, Exclusions, SealedRun
from airflow_kafka_groups.change.deletion.unseen import offsets_in_snapshot
from airflow_kafka_groups.change.deletion.verify import Verification, compare_present, verify_deleted
from airflow_kafka_groups.exceptions import ConfigurationError, PlanError
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
from airflow_kafka_groups.kafka.admin.results import GroupListings
from airflow_kafka_groups.kafka.models import GroupOffsets
from airflow_kafka_groups.ledger.approval_rules import ApprovalTerms
from airflow_kafka_groups.ledger.deletion_plan import NAMED_BY_HAND, DeletionPlan, load_plan
from airflow_kafka_groups.ledger.floors import NO_FLOORS, SiteFloors
from airflow_kafka_groups.ledger.journal.history import DeletionHistory
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.outcomes import Decision
from airflow_kafka_groups.ledger.plan_rows import CommittedGroup
from airflow_kafka_groups.observe.protocols import BackupAdmin
from airflow_kafka_groups.storage.layout import Layout


async def delete_by_plan(
    admin: BackupAdmin,
    layout: Layout,
    plan_id: str,
    plan_digest: str,
    request: DeletionRequest,
    *,
    approval: ApprovalTerms | None = None,
    floors: SiteFloors = NO_FLOORS,
    policy: Callable[[], PolicyFile | None] = lambda: None,
) -> DeletionResult:
    """Delete the groups of a plan that still are what the plan says.

    :param plan_digest: the plan's digest, as it was made or approved; another plan is refused.
    :param approval: when a person has to have approved it; the answer is read from the storage. Default: never.
    :param floors: what the site demands, whatever the plan says. Default: nothing.
    :param policy: reads the plan's policy file as it is now, when the lease is held. A plan by a file is refused
        without it. Default: there is none.

    Raises ``PlanError``, ``BackupError``, ``SnapshotError``, ``JournalError``, ``StorageError`` or
    ``IncompleteListingError`` before anything is deleted. Afterwards it never raises for a group: each has its outcome,
    and what could not be recorded goes to the observer before ``StorageError`` is raised.
    """
    plan = await asyncio.to_thread(load_plan, layout, plan_id)
    plan.require_digest(plan_digest)
    floors.require(plan, dry_run=request.dry_run)
    if plan.snapshot_id == NAMED_BY_HAND:  # left over by a deletion by name: no floor of idle times was heeded
        floors.require_named(len(plan.groups), dry_run=request.dry_run)
        raise PlanError(f"plan {plan_id} is of groups that were named, and nobody has judged them: name them again")
    plan.require_unprotected(request.protects)
    run = DeletionRun(
        admin=admin,
        layout=layout,
        request=request,
        request_id=plan_id,
        expected=list(plan.planned.committed()),
        plan=plan,
        judged=True,
        approval=floors.approval(approval, plan),
        policy=policy,
    )
    async with request.lease() as lease:
        await run.delete(lease)
    return await run.finish()


@dataclass(kw_only=True)
class DeletionRun(SealedRun):
    """One run that deletes groups.

    :param judged: whether the plan was made by verdicts, so that idle times count.
    :param ledger: where it was not: the one that was asked when the groups were named. Keep-alive runs and restores
        that are recorded later count. Default: all do.
    :param signs: where it was not: which groups the ledger knows to be alive. Default: none.
    :param observed: the offsets of groups that were named, as they were seen first. Default: none.
    """

    plan: DeletionPlan | None
    judged: bool = False
    signs: NamedSigns | None = None
    ledger: Ledger | None = None
    observed: Mapping[str, GroupOffsets] = field(default_factory=dict)
    _ledger: Ledger = field(init=False)

    def exclusions(self, cluster_id: str | None, started_at: datetime, file: PolicyFile | None) -> Exclusions:
        """Read newer snapshots, and the journal; judge by the policy as it is now."""
        plan, layout = self.plan, self.layout
        self._ledger = ledger = self.ledger or Ledger(layout, cluster_id)
        in_use = in_use_since(ledger, plan) if plan is not None and self.judged else {}
        seen = ledger.seen(plan.group_ids, plan.idle_from) if plan is not None and self.judged else {}
        seen = {group_id: sign for group_id, sign in seen.items() if group_id not in in_use}
        if self.signs is not None:  # once more: a snapshot may have been taken while the groups were watched
            names = [group.group_id for group in self.expected]
            in_use = self.signs.alive(cluster_id, names, started_at)
        ruled_out = kept_by_newer_policy(plan, file, started_at) if plan is not None else {}

        def excluded(newest: DeletionHistory) -> dict[str, Decision]:
            kept_alive = ledger.wanted() if self.judged else {}
            on_record = kept_by_records(
                layout,
                plan,
                self.request_id,
                newest,
                kept_alive,
                started_at,
                judged=self.judged,
                seen=seen,
                policy=file,
            )
            return ruled_out | in_use | on_record

        return excluded

    def more_warnings(self) -> tuple[str, ...]:
        """Return what is known of groups that were named."""
        return () if self.signs is None or self.signs.watched is None else (self.signs.watched,)

    def excluded_since(self) -> dict[str, Decision]:
        """Return the groups that somebody began to keep alive during the run, or that a snapshot shows in use since."""
        if self.plan is None:
            return {}
        in_use = in_use_since(self._ledger, self.plan) if self.judged else {}
        if self.signs is not None:
            in_use = self.signs.seen(self.plan.kafka_cluster_id, self.plan.group_ids, self.request.now())
        return in_use | spare_new(self._ledger.wanted_since())

    def verified_backup(self) -> Backup | None:
        """Read and verify the plan's backup; a dry run may come before there is one."""
        if self.plan is None:
            return None
        backup = find_backup(self.layout, self.plan.plan_id)
        if backup is None:
            if self.request.dry_run:
                return None
            raise ConfigurationError("backup", None, "back up the plan first: nothing is deleted without a backup")
        return require_backup_of(backup, self.plan)

    def work(
        self, listings: GroupListings, entries: Mapping[str, CommittedGroup] | None, excluded: Mapping[str, Decision]
    ) -> ChunkWork:
        """Return how groups are read and deleted."""
        age = self.request.limits.max_read_age_seconds
        hidden = self.may_be_hidden
        return ChunkWork(self.admin, listings, entries, excluded, age, self.request.monotonic, hidden, self._judged)

    def _judged(self, group_ids: Collection[str]) -> Mapping[str, GroupOffsets]:
        if self.plan is None or not self.judged:
            return self.observed
        return offsets_in_snapshot(self.layout, self.plan.snapshot_id, group_ids)

    async def verify(self, names: Iterable[str]) -> Verification:
        """Look for groups that should be gone."""
        return await compare_present(self.admin, await verify_deleted(self.admin, names), self.expected)
