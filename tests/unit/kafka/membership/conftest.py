"""A scripted group, and a client of its cluster."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from airflow_kafka_groups.kafka import ClusterClient
from tests.fakes.cluster import FakeCluster
from tests.unit.kafka.membership.group import ScriptedGroup


@pytest.fixture
async def group() -> AsyncIterator[ScriptedGroup]:
    async with FakeCluster() as cluster, asyncio.timeout(20):
        yield ScriptedGroup(cluster)


@pytest.fixture
async def cluster(group: ScriptedGroup) -> AsyncIterator[ClusterClient]:
    async with ClusterClient(group.config) as client:
        yield client
