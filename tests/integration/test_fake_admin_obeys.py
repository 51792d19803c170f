"""What the fake of the unit tests obeys is what brokers do: every fact is checked on real ones."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest

from airflow_kafka_groups.kafka import AdminClient
from airflow_kafka_groups.kafka.models import TopicPartition
from tests.fakes import admin_facts
from tests.integration.conftest import config_of, connection_client
from tests.lab.cluster import KafkaCluster
from tests.lab.tools import share_consumer
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.live import LiveConsumer
from tests.lab.workload.topics import create_topics, produce

_seeded: set[str] = set()


class RealWorld:
    """The cluster of the facts, on real brokers."""

    def __init__(self, cluster: KafkaCluster, admin: AdminClient) -> None:
        self.admin = admin
        self._bootstrap = cluster.bootstrap
        self._run = uuid4().hex[:8]

    def name(self, name: str) -> str:
        return f"facts-{self._run}-{name}"

    async def empty(self, name: str, offsets: Mapping[TopicPartition, int]) -> str:
        commits = {(where.topic, where.partition): offset for where, offset in offsets.items()}
        await asyncio.to_thread(commit_offsets, self._bootstrap, {self.name(name): commits})
        return self.name(name)

    @asynccontextmanager
    async def live(self, name: str) -> AsyncIterator[str]:
        member = LiveConsumer(self._bootstrap, self.name(name), [admin_facts.READ], commit_every=None)
        await asyncio.to_thread(member.__enter__)
        try:
            yield self.name(name)
        finally:
            await asyncio.to_thread(member.stop)


def seed(cluster: KafkaCluster) -> None:
    if cluster.bootstrap not in _seeded:
        create_topics(cluster.bootstrap, {admin_facts.READ: 2, admin_facts.OTHER: 2})
        both = [(topic, partition) for topic in (admin_facts.READ, admin_facts.OTHER) for partition in range(2)]
        produce(cluster.bootstrap, dict.fromkeys(both, admin_facts.RECORDS))
        _seeded.add(cluster.bootstrap)


@asynccontextmanager
async def world_of(cluster: KafkaCluster) -> AsyncIterator[RealWorld]:
    await asyncio.to_thread(seed, cluster)
    async with connection_client(config_of(cluster)) as admin:
        yield RealWorld(cluster, admin)


@pytest.mark.parametrize("fact", admin_facts.FACTS, ids=lambda fact: fact.__name__)
async def test_brokers_do_so(any_kafka: KafkaCluster, fact: admin_facts.Fact) -> None:
    async with world_of(any_kafka) as world:
        await fact(world)


async def test_share_groups_are_left_alone(kafka44: KafkaCluster) -> None:
    async with world_of(kafka44) as world:
        group_id = world.name("shared")
        with share_consumer(kafka44, group_id, admin_facts.READ):
            pass
        await admin_facts.share_groups_are_left_alone(world, group_id)
