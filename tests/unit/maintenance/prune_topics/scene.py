"""Snapshots of a live group that has stopped reading a topic, hour by hour."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from airflow_kafka_groups.maintenance.floors import NO_FLOORS, SiteFloors
from airflow_kafka_groups.maintenance.plan.policy import PlanPolicy
from airflow_kafka_groups.maintenance.policy.policy_file import PolicyFile
from airflow_kafka_groups.maintenance.prune_topics.planning import plan_topics
from airflow_kafka_groups.maintenance.prune_topics.prune_plan import PrunePlan
from airflow_kafka_groups.maintenance.snapshot.collect import take_snapshot
from airflow_kafka_groups.maintenance.storage import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import NOW, FakeGroup, Ticking

HOUR = timedelta(hours=1)
POLICY = PlanPolicy(min_idle_seconds=7_000, max_share=1.0)


def layout_in(folder: Path) -> Layout:
    return Layout(folder, "prod")


def cluster(**groups: FakeGroup) -> FakeAdmin:
    """Return a cluster with these groups, and ``app``: it reads ``live``, and has offsets of ``old``, too."""
    admin = FakeAdmin(log=(0, 1_000))
    admin.add(
        "app", ("live", 0, 1), ("live", 1, 1), ("old", 0, 7), ("old", 1, 8), members=2, subscribed=frozenset({"live"})
    )
    admin.groups |= groups
    return admin


def work(admin: FakeAdmin) -> None:
    """Let every group with members commit in the topic ``live``."""
    for group in admin.groups.values():
        for where in group.offsets:
            if group.members and where.topic == "live":
                value = group.offsets[where]
                group.offsets[where] = value._replace(offset=value.offset + 1)


async def snapshots(
    admin: FakeAdmin,
    layout: Layout,
    hours: int = 3,
    *,
    first: datetime = NOW,
    before: Callable[[int], None] = lambda hour: None,
    **how: Any,
) -> datetime:
    """Take a snapshot each hour, with a commit in between; return a time shortly after the last.

    :param before: called with the hour before its snapshot is taken.
    """
    at = first
    for hour in range(hours):
        work(admin)
        before(hour)
        at = first + hour * HOUR
        await take_snapshot(admin, layout, now=Ticking(at), **how)
    return at + timedelta(minutes=5)


def plan(
    layout: Layout,
    now: datetime,
    policy: PlanPolicy = POLICY,
    *,
    floors: SiteFloors = NO_FLOORS,
    file: PolicyFile | None = None,
) -> PrunePlan:
    return plan_topics(layout, policy, floors, file=file, now=now)[0]


def kept(plan: PrunePlan) -> dict[str, str]:
    """Return the verdict of each kept topic."""
    return {f"{item.group_id} [{item.topic}]": item.verdict for item in plan.kept}
