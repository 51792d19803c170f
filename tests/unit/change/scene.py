"""Steps that many scripts share: take a snapshot, judge its Empty groups stale, plan, back up."""

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

from airflow_kafka_groups.change.backup.file import Backup
from airflow_kafka_groups.change.backup.make_backup import back_up_plan
from airflow_kafka_groups.change.deletion.ad_hoc import delete_by_name
from airflow_kafka_groups.change.deletion.request import DeletionLimits, DeletionRequest
from airflow_kafka_groups.change.deletion.run import DeletionResult, delete_by_plan
from airflow_kafka_groups.change.lease import LeaseGuard
from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.change.restore.change_offsets import (
    ChangeTerms,
    Earlier,
    RecordedChanges,
    change_offsets,
    first_try,
)
from airflow_kafka_groups.change.restore.from_backup import RestoreRequest
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient
from airflow_kafka_groups.kafka.membership.lease import MaintenanceLease
from airflow_kafka_groups.kafka.models import GroupState
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan, save_plan
from airflow_kafka_groups.ledger.proposed_changes import Change
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import NOW, Ticking
from tests.fakes.snapshot_groups import groups_in
from tests.fakes.verdicts import VerdictRow, verdicts_of

LATER = NOW + timedelta(minutes=10)
POLICY = PlanPolicy(min_idle_seconds=3_600, max_share=1.0)


def layout_in(folder: Path) -> Layout:
    return Layout(folder, "prod")


async def snapshot(admin: FakeAdmin, layout: Layout) -> SnapshotReader:
    summary = await take_snapshot(admin, layout, now=Ticking())
    return SnapshotReader(layout, summary.snapshot_id)


async def snapshot_of(folder: Path, *names: str) -> SnapshotReader:
    """Take a snapshot of a cluster with groups that have offsets and no members."""
    admin = FakeAdmin()
    for name in names:
        admin.add(name, ("t", 0, 5))
    return await snapshot(admin, layout_in(folder))


def judge(reader: SnapshotReader, **changes: object) -> list[VerdictRow]:
    """Call every Empty group with offsets stale, and every other one live: the fence has to do without Spark's care."""
    verdicts = []
    for number, group in enumerate(groups_in(reader)):
        stale = group.state == GroupState.EMPTY.value and bool(group.offsets)
        values: dict[str, object] = {
            "group_id": group.group_id,
            "group_type": group.group_type,
            "protocol_type": group.protocol_type,
            "state": group.state,
            "members": group.members,
            "partitions": len(group.offsets),
            "lag": 7,
            "idle_since": NOW - timedelta(days=9),
            "idle_seconds": 777_600.0 + number,
            "observations": 3,
            "observed_at": group.observed_at,
            "verdict": "stale" if stale else "live",
            "reason": "idle for 9 days" if stale else "in use",
        }
        verdicts.append(VerdictRow(**{**values, **changes}))  # type: ignore[arg-type]
    return verdicts


async def planned(admin: FakeAdmin, layout: Layout, policy: PlanPolicy = POLICY, now: datetime = LATER) -> DeletionPlan:
    reader = await snapshot(admin, layout)
    plan = make_plan(verdicts_of(judge(reader)), reader, policy, now)
    save_plan(layout, plan)
    return plan


async def backed_up(admin: FakeAdmin, layout: Layout) -> tuple[DeletionPlan, Backup]:
    plan = await planned(admin, layout)
    return plan, await back_up_plan(admin, layout, plan, now=Ticking(LATER))


@dataclass(frozen=True, slots=True, kw_only=True)
class _RestoreOf(RestoreRequest):
    """A restore that another connection records than the one that backed up."""

    of: Layout

    async def propose(self, admin: MaintenanceClient, layout: Layout, earlier: Earlier = first_try) -> list[Change]:
        return await RestoreRequest.propose(self, admin, self.of, earlier)


async def restored(
    admin: MaintenanceClient, layout: Layout, plan_id: str, *group_ids: str, of: Layout | None = None
) -> RecordedChanges:
    """Restore a backup, and record that."""
    request = _RestoreOf(plan_id=plan_id, group_ids=group_ids or None, of=of or layout)
    return await change_offsets(admin, layout, request, ChangeTerms(dry_run=False))


LIMITS = ("chunk_size", "max_read_age_seconds", "max_delete_seconds")


def request(dry_run: bool = False, **changes: Any) -> DeletionRequest:
    """Return the request of one task; ``lease`` is the lease itself."""
    limits = DeletionLimits(**{name: changes.pop(name) for name in LIMITS if name in changes})
    if (lease := changes.pop("lease", None)) is not None:
        changes["lease"] = lambda: nullcontext(LeaseGuard(cast("MaintenanceLease", lease)))
    return DeletionRequest(
        **{"request_id": "a task", "dry_run": dry_run, "now": Ticking(LATER), "limits": limits, **changes}
    )


async def delete_plan(admin: FakeAdmin, layout: Layout, plan: DeletionPlan, **how: Any) -> DeletionResult:
    """Delete the groups of a plan; ``how`` are arguments of ``request`` and of ``delete_by_plan``, and the policy."""
    terms = {name: how.pop(name) for name in ("approval", "floors") if name in how}
    policy = how.pop("policy", None)
    digest = how.pop("digest", plan.digest)
    return await delete_by_plan(admin, layout, plan.plan_id, digest, request(**how), policy=lambda: policy, **terms)


async def delete_names(admin: FakeAdmin, layout: Layout, names: Iterable[str], **how: Any) -> DeletionResult:
    """Delete named groups; ``how`` are arguments of ``delete_by_name`` and of ``request``."""
    of_request = {name: how.pop(name) for name in (*LIMITS, "lease", "dry_run", "now", "request_id") if name in how}
    return await delete_by_name(admin, layout, names, request(**of_request), **how)
