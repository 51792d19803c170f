"""What a planned deletion costs around the brokers' work: ``python -m tests.bench.planned_deletion --groups 60000``.

Three real brokers, groups with ten committed offsets each, the plan and its backup in a local folder, the cluster's
lease. Prints for each round the seconds of the whole deletion, and how much of them was spent reading, in the journal
and in DeleteGroups; these overlap, so they do not add up. ``--journal`` compares, in turn, the journal as it is with
one whose writes are not fsynced and with one that writes nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial, wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

from airflow_kafka_groups.change.backup.make_backup import backup_groups
from airflow_kafka_groups.change.deletion.delete_by_plan import delete_by_plan
from airflow_kafka_groups.change.deletion.request import DeletionRequest
from airflow_kafka_groups.change.deletion.sealed_run import DeletionResult
from airflow_kafka_groups.change.lease import deletion_lease
from airflow_kafka_groups.hooks.connection.settings import ConnectionSettings
from airflow_kafka_groups.hooks.guard import GuardedAdminClient
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.kafka import AdminClient
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.cluster.servers import parse_servers
from airflow_kafka_groups.kafka.models import LEASE_GROUP_ID
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan, save_plan
from airflow_kafka_groups.ledger.journal import journal
from airflow_kafka_groups.ledger.plan_rows import PlannedGroup
from airflow_kafka_groups.observe.fingerprint import fingerprint
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.paths import new_id
from tests.bench.scenarios import TOPIC
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import seed_groups
from tests.lab.workload.topics import create_topics

CLUSTER = "bench"
PARTITIONS = 10
OFFSETS = {(TOPIC, partition): 1_000_000 + partition for partition in range(PARTITIONS)}


class Spent:
    """The seconds spent in parts of a deletion."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, int] = {}

    def add(self, name: str, began: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began
        self.calls[name] = self.calls.get(name, 0) + 1

    def of(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(work)
        def timed(*args: Any, **more: Any) -> Any:
            began = time.perf_counter()
            try:
                return work(*args, **more)
            finally:
                self.add(name, began)

        return timed

    def of_call(self, name: str, work: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @wraps(work)
        async def timed(*args: Any, **more: Any) -> Any:
            began = time.perf_counter()
            try:
                return await work(*args, **more)
            finally:
                self.add(name, began)

        return timed


@contextmanager
def watched(spent: Spent) -> Iterator[None]:
    """Measure the parts of a deletion."""
    run = journal.RunJournal
    patches = [
        patch.object(run, name, spent.of(f"journal {name}", getattr(run, name)))
        for name in ("intend", "conclude", "overtaken", "end")
    ]
    patches += [
        patch.object(journal.Journal, name, spent.of(f"journal {name}", getattr(journal.Journal, name)))
        for name in ("current", "begin", "refresh")
    ]
    patches += [
        patch.object(AdminClient, name, spent.of_call(name, getattr(AdminClient, name)))
        for name in ("describe_consumer_groups", "delete_consumer_groups", "list_groups")
    ]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


@contextmanager
def journal_as(how: str) -> Iterator[None]:
    """Let the journal write as it does (``"durable"``), without fsync (``"buffered"``) or not at all (``"none"``)."""
    patches: list[Any] = []
    if how == "buffered":
        patches.append(patch("os.fsync", lambda descriptor: None))
    elif how == "none":
        run = journal.RunJournal
        patches += [
            patch.object(run, "intend", lambda *_, **__: None),
            patch.object(run, "conclude", lambda *_, **__: None),
            patch.object(run, "overtaken", lambda _: False),
            patch.object(run, "end", lambda self, *_: self.path),
        ]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


async def make_plan(admin: AdminClient, layout: Layout, group_ids: list[str]) -> DeletionPlan:
    """Seal a plan of these groups as they are now."""
    now, cluster_id = datetime.now(UTC), await admin.cluster_id()
    prints: dict[str, str] = {}
    async for result in admin.stream_consumer_group_offsets(group_ids, require_stable=True):
        prints[result.group_id] = fingerprint(result.unwrap())
    groups = [
        PlannedGroup(
            group_id=group_id, group_type="classic", protocol_type="", state="Empty", partitions=PARTITIONS, lag=0,
            idle_since=now.isoformat(), idle_seconds=1e6, reason="measured", fingerprint=prints[group_id],
        )
        for group_id in group_ids
    ]  # fmt: skip
    plan = DeletionPlan(
        plan_id=new_id(now), cluster=CLUSTER, kafka_cluster_id=cluster_id or "", snapshot_id=new_id(now),
        created_at=now, expires_at=now + timedelta(days=1), policy=PlanPolicy(max_groups=len(groups), max_share=1.0),
        counts={"found": len(groups), "planned": len(groups)}, warnings=(), groups=tuple(groups), kept=(),
    )  # fmt: skip
    save_plan(layout, plan)
    return plan


async def measure(bootstrap: str, folder: Path, size: int, how: str, profile: bool = False) -> dict[str, Any]:
    """Delete so many new groups by a plan, and return what it took."""
    config = ClientConfig(bootstrap_servers=parse_servers(bootstrap))
    layout = Layout(folder, CLUSTER)
    ids = [f"job-{time.time_ns():x}.service-{number:06d}" for number in range(size)]
    await asyncio.to_thread(seed_groups, bootstrap, ids, OFFSETS)
    async with GuardedAdminClient(config, ConnectionSettings(conn_id=CLUSTER, properties={})) as admin:
        plan = await make_plan(admin, layout, ids)
        await backup_groups(admin, layout, plan)
        spent = Spent()
        request = DeletionRequest(
            request_id="bench",
            dry_run=False,
            lease=partial(deletion_lease, config, group_id=LEASE_GROUP_ID, owner="bench", wait_seconds=60.0),
        )
        before, began = _cpu(), time.perf_counter()
        with journal_as(how), watched(spent):
            result: DeletionResult = await _profiled(
                profile, delete_by_plan(admin, layout, plan.plan_id, plan.digest, request)
            )
        seconds = time.perf_counter() - began
    if result.report.counts["deleted"] != size:
        raise RuntimeError(f"{result.report.counts}: {result.report.kept_reasons} {result.report.warnings}")
    written = sum(path.stat().st_size for path in (folder / "_journal").rglob("*.json*")) if how != "none" else 0
    return {
        "groups": size,
        "journal": how,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(_cpu() - before, 2),
        "journal_bytes_per_group": round(written / size),
        "in": {name: round(value, 2) for name, value in spent.seconds.items()},
        "calls": spent.calls,
    }


async def _profiled(profile: bool, work: Awaitable[Any]) -> Any:
    if not profile:
        return await work
    import cProfile
    import pstats

    profiler = cProfile.Profile()
    profiler.enable()
    try:
        return await work
    finally:
        profiler.disable()
        pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(35)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main(arguments: list[str] | None = None) -> int:
    """Measure; print one line of JSON for each deletion."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.planned_deletion", description=__doc__)
    parser.add_argument("--groups", type=int, nargs="+", default=[10_000, 60_000])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--journal", nargs="*", default=["durable"], help="durable, buffered, none: measured in turn")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--bootstrap", help="a running cluster with the topic; default: start one")
    asked = parser.parse_args(arguments)
    if asked.bootstrap:
        _rounds(asked, asked.bootstrap)
        return 0
    with KafkaCluster(version="4.1.0", brokers=3, heap_mb=1024, full_jit=True) as cluster:
        create_topics(cluster.bootstrap, {TOPIC: PARTITIONS})
        _rounds(asked, cluster.bootstrap)
    return 0


def _rounds(asked: argparse.Namespace, bootstrap: str) -> None:
    for size in asked.groups:
        for _ in range(asked.rounds):
            for how in asked.journal:
                folder = Path(tempfile.mkdtemp(prefix="planned-deletion-"))
                try:
                    print(json.dumps(asyncio.run(measure(bootstrap, folder, size, how, asked.profile))), flush=True)
                finally:
                    shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
