"""Prune the topics of a plan: back up, read again, record the intent, delete, verify. Every doubt keeps a topic.

The run is that of a deletion (``sealed_run``): the same lease, journal, stop switch, pace and limits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar

from airflow_kafka_groups.change.backup.file import Backup
from airflow_kafka_groups.change.deletion.guards.exclusions import spare_new
from airflow_kafka_groups.change.deletion.request import DeletionRequest
from airflow_kafka_groups.change.deletion.sealed_run import DeletionResult, Exclusions, SealedRun
from airflow_kafka_groups.change.deletion.verify import Verification
from airflow_kafka_groups.change.prune_topics.guards import kept_by_journal, kept_by_policy, used_since
from airflow_kafka_groups.change.prune_topics.topic_backup import backup_topics, saved_topics
from airflow_kafka_groups.change.prune_topics.topic_recheck import PruneAdmin, TopicWork, verify_pruned
from airflow_kafka_groups.durations import show_duration
from airflow_kafka_groups.exceptions import BackupError, PlanError
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
from airflow_kafka_groups.kafka.admin.results import GroupListings
from airflow_kafka_groups.ledger.approval_rules import ApprovalTerms
from airflow_kafka_groups.ledger.floors import NO_FLOORS, SiteFloors
from airflow_kafka_groups.ledger.journal.history import DeletionHistory
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.outcomes import Decision
from airflow_kafka_groups.ledger.plan_rows import CommittedGroup
from airflow_kafka_groups.ledger.prune_plan import KIND, PlannedTopic, PrunePlan, load_prune_plan
from airflow_kafka_groups.ledger.sealed_plan import require_here
from airflow_kafka_groups.storage.layout import Layout

CHUNK_SIZE = 100
"""Each topic is a request of its own, so fewer are in doubt if a process dies."""


async def prune_by_plan(
    admin: PruneAdmin,
    layout: Layout,
    plan_id: str,
    plan_digest: str,
    request: DeletionRequest,
    *,
    approval: ApprovalTerms | None = None,
    floors: SiteFloors = NO_FLOORS,
    policy: Callable[[], PolicyFile | None] = lambda: None,
) -> DeletionResult:
    """Delete the offsets of a plan's topics that still are what the plan says.

    :param plan_digest: the plan's digest, as it was made or approved; another plan is refused.
    :param request: who asks, and within which limits. A dry run neither backs up nor deletes.
    :param approval: when a person has to have approved it; the answer is read from the storage. Default: never.
    :param floors: what the site demands, whatever the plan says. Default: nothing.
    :param policy: reads the plan's policy file as it is now. Default: there is none.

    The outcomes are those of a deletion, one for each topic, by ``name_of``. Raises ``PlanError``, ``BackupError``,
    ``SnapshotError``, ``JournalError``, ``StorageError`` or ``IncompleteListingError`` before anything is deleted.
    """
    plan = await asyncio.to_thread(load_prune_plan, layout, plan_id)
    plan.require_digest(plan_digest)
    _require_allowed(plan, floors, request)
    run = PruneRun(
        admin=admin,
        layout=layout,
        request=request,
        request_id=plan_id,
        expected=[
            CommittedGroup(item.name, item.group_type, item.protocol_type, item.fingerprint) for item in plan.groups
        ],
        plan=plan,
        approval=floors.approval(approval, plan),
        policy=policy,
        least_idle=floors.min_idle_seconds or 0.0,
    )
    async with request.lease() as lease:
        if not request.dry_run:
            await require_here(admin, plan, await admin.cluster_id(), request.now())
            await backup_topics(admin, layout, plan, now=request.now)
        await run.delete(lease)
    return await run.finish()


def _require_allowed(plan: PrunePlan, floors: SiteFloors, request: DeletionRequest) -> None:
    """Raise ``PlanError`` where the site or the connection does not allow the plan."""
    floors.require(plan, dry_run=request.dry_run)
    least = floors.min_idle_seconds or 0.0
    if not request.dry_run and (short := [item for item in plan.groups if item.idle_seconds < least]):
        raise PlanError(
            f"plan {plan.plan_id} undercuts what the site demands ({short[0].name!r} is idle for "
            f"{show_duration(short[0].idle_seconds)}, the site's min_idle_seconds is {show_duration(least)}): "
            "make a new one"
        )
    plan.require_unprotected(request.protects)


@dataclass(kw_only=True)
class PruneRun(SealedRun):
    """One run that prunes topics.

    :param least_idle: the site's least idle time, in seconds.
    """

    noun: ClassVar[str] = "topic(s) of groups"

    admin: PruneAdmin
    plan: PrunePlan
    least_idle: float
    _ledger: Ledger = field(init=False)

    @cached_property
    def _topics(self) -> Mapping[str, PlannedTopic]:
        return {item.name: item for item in self.plan.groups}

    def exclusions(self, cluster_id: str | None, started_at: datetime, file: PolicyFile | None) -> Exclusions:
        """Read newer snapshots, and the journal; judge by the policy as it is now."""
        self._ledger = ledger = Ledger(self.layout, cluster_id)
        used = used_since(ledger, self.plan)
        ruled_out = kept_by_policy(self.plan, file, started_at)

        def excluded(newest: DeletionHistory) -> dict[str, Decision]:
            kept_alive = ledger.wanted()
            return ruled_out | used | kept_by_journal(self.plan, newest, kept_alive, started_at, self.least_idle, file)

        return excluded

    def excluded_since(self) -> dict[str, Decision]:
        """Return the topics that a snapshot shows in use since, or whose groups somebody began to keep alive."""
        groups = spare_new(self._ledger.wanted_since())
        used = used_since(self._ledger, self.plan)
        return used | {item.name: groups[item.group_id] for item in self.plan.groups if item.group_id in groups}

    def verified_backup(self) -> Backup | None:
        """Read and verify the plan's backup; a dry run may come before there is one."""
        saved = saved_topics(self.layout, self.plan)
        if saved is None and not self.request.dry_run:
            raise BackupError(f"there is no backup of plan {self.plan.plan_id}: nothing is deleted without one")
        return saved

    def work(
        self, listings: GroupListings, entries: Mapping[str, CommittedGroup] | None, excluded: Mapping[str, Decision]
    ) -> TopicWork:
        """Return how topics are read and deleted."""
        age = self.request.limits.max_read_age_seconds
        how = (listings, entries, excluded, age, self.request.monotonic, self.may_be_hidden)
        return TopicWork(self.admin, self._topics, *how)

    async def verify(self, names: Iterable[str]) -> Verification:
        """Look whether the groups have offsets of the topics still."""
        return await verify_pruned(self.admin, self._topics, names)

    def more_facts(self) -> dict[str, Any]:
        """Return what tells this run from one that deletes groups."""
        return {"what": KIND}
