"""Snapshots of a live group that has stopped reading a topic, hour by hour."""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from airflow_kafka_groups.change.deletion.run import DeletionResult, delete_by_plan
from airflow_kafka_groups.change.plan.plan_topics import plan_topics
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.floors import NO_FLOORS, SiteFloors
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import NOW, FakeGroup, Ticking
from tests.unit.change.scene import request

HOUR = timedelta(hours=1)
OLD = (TopicPartition("old", 0), TopicPartition("old", 1))
PRUNE = "version: 1\nlimits: {max_share: 1.0}\nrules: [{name: prune, action: prune-topics, idle: 1h}]\n"
"""A policy that prunes."""
SAVED = {OLD[0]: 7, OLD[1]: 8}
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
) -> DeletionPlan:
    return plan_topics(layout, policy, floors, file=file, now=now)[0]


def kept(plan: DeletionPlan) -> dict[str, str]:
    """Return the verdict of each kept topic."""
    return {f"{item.group_id} [{item.topic}]": item.verdict for item in plan.kept}


async def planned(admin: FakeAdmin, layout: Layout, **how: Any) -> DeletionPlan:
    return plan(layout, await snapshots(admin, layout), **how)


async def watched(folder: Path) -> tuple[FakeAdmin, Layout, datetime]:
    """Return the cluster, its snapshots, and a time shortly after the last of them."""
    admin, layout = cluster(), layout_in(folder)
    return admin, layout, await snapshots(admin, layout)


async def ready(folder: Path) -> tuple[FakeAdmin, Layout, DeletionPlan]:
    """Return the cluster, its snapshots, and the plan to prune ``old``."""
    admin, layout, now = await watched(folder)
    return admin, layout, plan(layout, now)


async def prune(admin: FakeAdmin, layout: Layout, of: DeletionPlan, **how: Any) -> DeletionResult:
    """Prune by a plan; ``how`` are arguments of ``request`` and of ``delete_by_plan``."""
    terms = {name: how.pop(name) for name in ("approval", "floors", "policy") if name in how}
    how.setdefault("now", Ticking(of.created_at))
    digest = how.pop("digest", of.digest)
    return await delete_by_plan(admin, layout, of.plan_id, digest, request(**how), prunes=True, **terms)


async def outcomes(admin: FakeAdmin, layout: Layout, of: DeletionPlan, **how: Any) -> dict[str, str]:
    return fates(await prune(admin, layout, of, **how))


def fates(result: DeletionResult) -> dict[str, str]:
    return {item.group_id: f"{item.outcome.value}:{item.code}" for item in result.report.outcomes}


def old_offsets(admin: FakeAdmin, group_id: str = "app") -> dict[TopicPartition, int]:
    return {where: offset for where, offset in admin.groups[group_id].positions.items() if where.topic == "old"}


def subscribe(admin: FakeAdmin) -> None:
    admin.groups["app"]._subscribed = frozenset({"live", "old"})


def move(admin: FakeAdmin) -> None:
    admin.commit("app", "old", 1, 9)


def restore(admin: FakeAdmin) -> None:
    for where, offset in SAVED.items():
        admin.commit("app", where.topic, where.partition, offset)
