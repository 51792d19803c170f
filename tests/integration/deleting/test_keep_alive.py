"""What makes brokers forget the offsets of a group without members, and that keep-alive puts it off: on real brokers.

The brokers of all versions run side by side with a retention of one minute, so the waits are shared.
docs/howto/keep-alive.md has the table.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from airflow_kafka_groups.change.keep_alive import KeepAliveReport, KeepAliveRequest, keep_alive
from airflow_kafka_groups.change.restore.change_offsets import ChangeTerms
from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient
from airflow_kafka_groups.kafka.models import OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.storage.layout import Layout
from tests.integration.conftest import config_of, connection_client
from tests.lab.cluster import KafkaCluster
from tests.lab.jars import parse_version
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.live import LiveConsumer
from tests.lab.workload.topics import create_topics, produce

VERSIONS = ("2.8.2", "3.9.2", "4.4.0")
SETTINGS = {
    "offsets.retention.minutes": 1,
    "offsets.retention.check.interval.ms": 500,
    "offsets.topic.num.partitions": 1,
}
ACT_AT, LOOK_AT = 25.0, 72.0
"""In seconds: before half a retention something is done; then all that it did not help is gone, and nothing else."""

SIMPLE = ("simple-idle", "simple-commit", "simple-join", "simple-kept")
CLASSIC = ("classic-idle", "classic-commit", "classic-join", "classic-kept")
CONSUMER = ("consumer-idle", "consumer-commit", "consumer-kept")
COMMITTED = ("simple-commit", "classic-commit", "consumer-commit")
JOINED = ("simple-join", "classic-join")
SURVIVORS = {
    *("simple-commit", "simple-join", "simple-kept"),
    *("classic-join", "classic-kept"),
    *("consumer-commit", "consumer-kept"),
}
"""``simple-join`` became a classic group by its member: then the time counts at which that left."""
OFFSETS = {TopicPartition("a", 0): OffsetAndMetadata(3, ""), TopicPartition("b", 0): OffsetAndMetadata(2, "")}


def groups_of(version: str) -> tuple[str, ...]:
    return (*SIMPLE, *CLASSIC, *(CONSUMER if parse_version(version) >= (4, 0, 0) else ()))


def prepare(cluster: KafkaCluster) -> None:
    """Make the groups: those of a protocol had a member, which left."""
    where = cluster.bootstrap
    create_topics(where, {"a": 1, "b": 1})
    produce(where, {("a", 0): 5, ("b", 0): 5})
    for group_id in groups_of(cluster.version):
        if group_id not in SIMPLE:
            protocol = "consumer" if group_id in CONSUMER else "classic"
            with LiveConsumer(where, group_id, ["a"], protocol=protocol, commit_every=0.1) as consumer:  # type: ignore[arg-type]
                consumer.wait_committed()
    offsets = {(at.topic, at.partition): value.offset for at, value in OFFSETS.items()}
    commit_offsets(where, dict.fromkeys(groups_of(cluster.version), offsets))


async def act(admin: MaintenanceClient, cluster: KafkaCluster, layout: Layout) -> KeepAliveReport:
    """Commit again, join and leave, or do both by keep-alive; each for groups of its own."""
    groups = groups_of(cluster.version)
    same = {group_id: OFFSETS for group_id in groups if group_id in COMMITTED}
    (await admin.alter_consumer_group_offsets(same)).raise_for_errors()
    async with MaintenanceClient(config_of(cluster)) as client:
        for group_id in JOINED:
            await client.join_and_leave(group_id, ["a", "b"])
    request = KeepAliveRequest(include=("*-kept",), allow_membership=True, observe_seconds=0.5)
    return await keep_alive(admin, layout, request, ChangeTerms(dry_run=False))


async def remaining(admin: MaintenanceClient, groups: Iterable[str]) -> dict[str, set[tuple[str, int]]]:
    read = await admin.list_consumer_group_offsets(list(groups))
    return {
        group_id: {(where.topic, value.offset) for where, value in read[group_id].unwrap().items() if value is not None}
        for group_id in groups
    }


@pytest.fixture
async def clusters() -> AsyncIterator[list[KafkaCluster]]:
    """Run one broker of each version, started at the same time."""
    made = [KafkaCluster(version=version, brokers=1, config=SETTINGS) for version in VERSIONS]
    try:
        await asyncio.gather(*(asyncio.to_thread(cluster.start) for cluster in made))
        yield made
    finally:
        for cluster in made:
            await asyncio.to_thread(cluster.stop)


async def test_brokers_forget_by_the_commit_or_by_when_the_group_became_empty(
    clusters: list[KafkaCluster], tmp_path: Path
) -> None:
    await asyncio.gather(*(asyncio.to_thread(prepare, cluster) for cluster in clusters))
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        admins = [await stack.enter_async_context(connection_client(config_of(cluster))) for cluster in clusters]
        await asyncio.sleep(ACT_AT)
        reports = await asyncio.gather(
            *(
                act(admin, cluster, Layout(tmp_path, f"kafka-{cluster.version}"))
                for admin, cluster in zip(admins, clusters, strict=True)
            )
        )
        for report in reports:
            assert report.problems() == {}
            assert {group.outcome.value for group in report.groups} == {"kept_alive"}
        await asyncio.sleep(max(began + LOOK_AT - time.monotonic(), 0))
        for admin, cluster in zip(admins, clusters, strict=True):
            groups = groups_of(cluster.version)
            found = await remaining(admin, groups)
            assert {group_id for group_id in groups if found[group_id]} == SURVIVORS & set(groups), cluster.version
            for group_id in SURVIVORS & set(groups):
                assert found[group_id] == {("a", 3), ("b", 2)}, (cluster.version, group_id)
            described = await admin.describe_consumer_groups(["classic-kept"])
            group = described["classic-kept"].unwrap()
            assert (group.state.value, group.members, group.protocol_type) == ("Empty", (), "consumer")


@pytest.mark.parametrize("kafka", ["kafka28", "kafka39", "kafka44"])
async def test_a_group_in_use_is_left_alone(kafka: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    cluster: KafkaCluster = request.getfixturevalue(kafka)
    where, topic = cluster.bootstrap, "keep-alive-in-use"
    await asyncio.to_thread(create_topics, where, {topic: 1})
    await asyncio.to_thread(produce, where, {(topic, 0): 5})
    await asyncio.to_thread(commit_offsets, where, {"asleep": {(topic, 0): 2}})
    with LiveConsumer(where, "in-use", [topic], commit_every=0.1) as consumer:
        await asyncio.to_thread(consumer.wait_committed)
        async with connection_client(config_of(cluster)) as admin:
            names = KeepAliveRequest(group_ids=("asleep", "in-use"), allow_membership=True, observe_seconds=0.5)
            report = await keep_alive(admin, Layout(tmp_path, "prod"), names, ChangeTerms(dry_run=False))
            (described,) = (await admin.describe_consumer_groups(["in-use"])).values()
        assert len(described.unwrap().members) == 1
        consumer.check()
    assert {group.group_id: group.outcome.value for group in report.groups} == {
        "asleep": "kept_alive",
        "in-use": "left_alone",
    }


@pytest.mark.parametrize("kafka", ["kafka28", "kafka39", "kafka44"])
async def test_a_brief_member_and_a_consumer_that_comes_back_do_not_shut_each_other_out(
    kafka: str, request: pytest.FixtureRequest
) -> None:
    cluster: KafkaCluster = request.getfixturevalue(kafka)
    where, topic = cluster.bootstrap, "keep-alive-comes-back"
    await asyncio.to_thread(create_topics, where, {topic: 1})
    await asyncio.to_thread(produce, where, {(topic, 0): 5})
    consumer = LiveConsumer(where, "comes-back", [topic], commit_every=0.1)
    async with MaintenanceClient(config_of(cluster)) as client:
        consumer.start()
        try:
            for _ in range(5):  # before it is there, while it joins, and with it: a run only meets the first two
                with contextlib.suppress(KafkaGroupsError):
                    await client.join_and_leave("comes-back", [topic])
                await asyncio.sleep(0.3)
            await asyncio.to_thread(consumer.wait_committed)
            consumer.check()
        finally:
            await asyncio.to_thread(consumer.stop)
    consumer.check()
