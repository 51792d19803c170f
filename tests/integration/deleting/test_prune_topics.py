"""Prune a topic of a live group on real brokers of each version, and undo it: docs/howto/prune-topics.md."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.deletion.request import DeletionRequest
from airflow_kafka_groups.change.deletion.run import delete_by_plan
from airflow_kafka_groups.change.plan.plan_topics import plan_topics
from airflow_kafka_groups.change.restore.commit_changes import apply_changes
from airflow_kafka_groups.change.restore.from_backup import RestoreRequest
from airflow_kafka_groups.exceptions import PartitionsFailedError
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient
from airflow_kafka_groups.kafka.models import GroupState, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.floors import NO_FLOORS
from airflow_kafka_groups.ledger.proposed_changes import ChangeOutcome, ChangeResult
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.storage.layout import Layout
from tests.integration.conftest import config_of, connection_client
from tests.lab.cluster import KafkaCluster
from tests.lab.jars import parse_version
from tests.lab.workload.live import LiveConsumer
from tests.lab.workload.topics import create_topics, delete_topics, produce

pytestmark = pytest.mark.safety


@pytest.fixture(params=["classic", "consumer"])
def protocol(request: pytest.FixtureRequest, any_kafka: KafkaCluster) -> str:
    if request.param == "consumer" and parse_version(any_kafka.version) < (4, 0, 0):
        pytest.skip("this version has classic groups only")
    return str(request.param)


async def until(holds: Callable[[], Awaitable[Any]], what: str) -> Any:
    """Wait until something holds, and return it."""
    deadline = time.monotonic() + 40
    while not (found := await holds()):
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.1)
    return found


class Scene:
    """A group that read ``live``, ``old`` and ``gone``, and reads ``live`` only by now."""

    def __init__(self, cluster: KafkaCluster, admin: MaintenanceClient, layout: Layout, protocol: str) -> None:
        self.cluster, self.admin, self.layout, self.protocol = cluster, admin, layout, protocol
        self.group = f"prune-{protocol}-{secrets.token_hex(4)}"
        self.live, self.old, self.gone = (f"{self.group}-{name}" for name in ("live", "old", "gone"))

    def consumer(self, *topics: str) -> LiveConsumer:
        where: Any = self.protocol
        return LiveConsumer(self.cluster.bootstrap, self.group, list(topics), protocol=where, commit_every=0.1)

    async def work(self) -> None:
        await asyncio.to_thread(produce, self.cluster.bootstrap, {(self.live, 0): 3, (self.live, 1): 3})

    async def committed(self, topic: str) -> dict[TopicPartition, OffsetAndMetadata]:
        read = await self.admin.list_consumer_group_offsets(self.group)
        return {where: value for where, value in read.items() if where.topic == topic and value is not None}

    async def stable(self) -> None:
        async def reads_live() -> bool:
            group = (await self.admin.describe_consumer_groups([self.group]))[self.group].unwrap()
            read = [set(member.subscribed_topics or ()) for member in group.members]
            return group.state is GroupState.STABLE and read == [{self.live}]

        await until(reads_live, "the group does not become Stable")

    async def plan(self) -> DeletionPlan:
        """Take three snapshots, with commits in between, and plan."""
        for _ in range(3):
            before = await self.committed(self.live)
            await self.work()
            await until(partial(self._moved, before), "the consumer commits nothing")
            await take_snapshot(self.admin, self.layout, include=[self.group])
            await asyncio.sleep(1.1)  # ids order snapshots by the second
        policy = PlanPolicy(include=(self.group,), min_idle_seconds=0.5, min_observations=3, max_share=1.0)
        return plan_topics(self.layout, policy, NO_FLOORS)[0]

    async def _moved(self, before: dict[TopicPartition, OffsetAndMetadata]) -> bool:
        now = await self.committed(self.live)
        return now.keys() >= before.keys() and now != before

    async def prune(self, plan: DeletionPlan, *, dry_run: bool = False) -> dict[str, str]:
        request = DeletionRequest(request_id=plan.plan_id, dry_run=dry_run)
        result = await delete_by_plan(self.admin, self.layout, plan.plan_id, plan.digest, request, prunes=True)
        return {item.group_id: f"{item.outcome.value}:{item.code}" for item in result.report.outcomes}

    async def restore(self, plan: DeletionPlan) -> ChangeResult:
        changes = await RestoreRequest(plan_id=plan.plan_id).propose(self.admin, self.layout)
        (done,) = await apply_changes(self.admin, changes, dry_run=False)
        return done


@asynccontextmanager
async def scene(cluster: KafkaCluster, folder: Path, protocol: str) -> AsyncIterator[Scene]:
    async with connection_client(config_of(cluster)) as admin:
        it = Scene(cluster, admin, Layout(folder, "prune"), protocol)
        topics = {it.live: 2, it.old: 2, it.gone: 1}
        await asyncio.to_thread(create_topics, cluster.bootstrap, topics)
        records = {(topic, partition): 4 for topic, count in topics.items() for partition in range(count)}
        await asyncio.to_thread(produce, cluster.bootstrap, records)

        async def all_read() -> bool:
            read = await admin.list_consumer_group_offsets(it.group)
            return len([value for value in read.values() if value is not None and value.offset == 4]) == len(records)

        consumer = it.consumer(*topics)
        await asyncio.to_thread(consumer.start)
        try:
            await until(all_read, "the group does not read its topics")
        finally:
            await asyncio.to_thread(consumer.stop)
        yield it


async def test_a_topic_that_a_live_group_has_stopped_reading_is_pruned_and_restored(
    any_kafka: KafkaCluster, protocol: str, tmp_path: Path
) -> None:
    async with scene(any_kafka, tmp_path, protocol) as it:
        saved = await it.committed(it.old)
        await asyncio.to_thread(delete_topics, any_kafka.bootstrap, [it.gone])
        consumer = it.consumer(it.live)
        await asyncio.to_thread(consumer.start)
        try:
            await it.stable()
            plan = await it.plan()
            name = f"{it.group} [{it.old}]"
            assert plan.group_ids == [name], plan.kept
            assert await it.prune(plan, dry_run=True) == {name: "would_delete:safe"}
            assert await it.committed(it.old) == saved

            assert await it.prune(plan) == {name: "deleted:safe"}
            assert await it.committed(it.old) == {}
            assert await it.committed(it.live)

            # The broker keeps what a member reads, and refuses commits from outside while there are members.
            with pytest.raises(PartitionsFailedError, match="GROUP_SUBSCRIBED_TO_TOPIC"):
                await it.admin.delete_consumer_group_offsets(it.group, [TopicPartition(it.live, 0)])
            altered = await it.admin.alter_consumer_group_offsets({it.group: saved})
            error = altered.failed[it.group]
            assert isinstance(error, PartitionsFailedError)
            assert {getattr(each, "name", "") for each in error.partition_errors.values()} == {"UNKNOWN_MEMBER_ID"}
            assert (await it.restore(plan)).outcome is ChangeOutcome.KEPT
            assert await it.committed(it.old) == {}
        finally:
            await asyncio.to_thread(consumer.stop)

        async def is_empty() -> bool:
            return (await it.admin.describe_consumer_groups([it.group]))[it.group].unwrap().state is GroupState.EMPTY

        await until(is_empty, "the group does not become Empty")
        live = await it.committed(it.live)
        assert (await it.restore(plan)).outcome is ChangeOutcome.CHANGED
        assert await it.committed(it.old) == saved
        assert await it.committed(it.live) == live, "other topics are not touched"
        assert await it.prune(plan) == {name: "kept:deleted_before"}, "nor is it pruned once more"


async def test_a_topic_that_is_read_again_is_kept(any_kafka: KafkaCluster, protocol: str, tmp_path: Path) -> None:
    async with scene(any_kafka, tmp_path, protocol) as it:
        saved = await it.committed(it.old)
        consumer = it.consumer(it.live, it.gone)
        await asyncio.to_thread(consumer.start)
        try:

            async def is_stable() -> bool:
                group = (await it.admin.describe_consumer_groups([it.group]))[it.group].unwrap()
                return group.state is GroupState.STABLE and len(group.members) == 1

            await until(is_stable, "the group does not become Stable")
            plan = await it.plan()
            name = f"{it.group} [{it.old}]"
            assert plan.group_ids == [name], plan.kept
        finally:
            await asyncio.to_thread(consumer.stop)
        again = it.consumer(it.live, it.old)
        await asyncio.to_thread(again.start)
        try:
            await asyncio.to_thread(again.wait_assigned)
            await until(is_stable, "the group does not become Stable")
            assert await it.prune(plan) == {name: "kept:subscribed"}
            assert await it.committed(it.old) == saved
        finally:
            await asyncio.to_thread(again.stop)


async def test_brokers_forget_the_offsets_of_a_deleted_topic_and_refuse_to_delete_them(
    any_kafka: KafkaCluster, protocol: str, tmp_path: Path
) -> None:
    async with scene(any_kafka, tmp_path, protocol) as it:
        await asyncio.to_thread(delete_topics, any_kafka.bootstrap, [it.gone])

        async def forgotten() -> bool:
            return not await it.committed(it.gone)

        await until(forgotten, "the broker keeps the offsets of a deleted topic")
        with pytest.raises(PartitionsFailedError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await it.admin.delete_consumer_group_offsets(it.group, [TopicPartition(it.gone, 0)])
