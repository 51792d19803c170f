"""Steps that many scripts share: take a snapshot, judge its Empty groups stale, plan, back up."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from airflow_kafka_groups.maintenance.backup.file import Backup
from airflow_kafka_groups.maintenance.backup.planned import backup_groups
from airflow_kafka_groups.maintenance.plan.deletion_plan import DeletionPlan
from airflow_kafka_groups.maintenance.plan.make_plan import make_plan
from airflow_kafka_groups.maintenance.plan.policy import PlanPolicy
from airflow_kafka_groups.maintenance.plan.verdicts import Verdict
from airflow_kafka_groups.maintenance.snapshot.collect import take_snapshot
from airflow_kafka_groups.maintenance.snapshot.reader import SnapshotReader
from airflow_kafka_groups.maintenance.storage import Layout
from airflow_kafka_groups.models import GroupState
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import NOW, Ticking

LATER = NOW + timedelta(minutes=10)
POLICY = PlanPolicy(min_idle_seconds=3_600, max_share=1.0)


def layout_in(folder: Path) -> Layout:
    return Layout(folder, "prod")


async def snapshot(admin: FakeAdmin, layout: Layout) -> SnapshotReader:
    summary = await take_snapshot(admin, layout, now=Ticking())
    return SnapshotReader(layout, summary.snapshot_id)


def judge(reader: SnapshotReader, **changes: object) -> list[Verdict]:
    """Call every Empty group with offsets stale, and every other one live: the fence has to do without Spark's care."""
    verdicts = []
    for number, group in enumerate(reader.groups()):
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
        verdicts.append(Verdict(**{**values, **changes}))  # type: ignore[arg-type]
    return verdicts


async def planned(admin: FakeAdmin, layout: Layout, policy: PlanPolicy = POLICY, now: datetime = LATER) -> DeletionPlan:
    reader = await snapshot(admin, layout)
    return make_plan(judge(reader), reader, policy, now)


async def backed_up(admin: FakeAdmin, layout: Layout) -> tuple[DeletionPlan, Backup]:
    plan = await planned(admin, layout)
    return plan, await backup_groups(admin, layout, plan, now=Ticking(LATER))
