"""Delete what a plan names: groups, or topics of groups. Every doubt keeps.

The plan has to fit this cluster, this hour, the site's floors and what was approved. ``run`` has the steps of a run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_kafka_groups.change.backup.make_backup import back_up_plan
from airflow_kafka_groups.change.deletion.request import DeletionRequest
from airflow_kafka_groups.change.deletion.run import DeletionResult, DeletionRun
from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
from airflow_kafka_groups.ledger.approval_rules import ApprovalTerms
from airflow_kafka_groups.ledger.deletion_plan import load_plan
from airflow_kafka_groups.ledger.floors import NO_FLOORS, SiteFloors
from airflow_kafka_groups.storage.layout import Layout

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient


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
