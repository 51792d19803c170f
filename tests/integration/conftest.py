"""One cluster for each broker version, so that a test written once is run on all of them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Literal

import pytest

from airflow_kafka_groups.hooks.connection import ConnectionSettings
from airflow_kafka_groups.kafka import ClientConfig, ClusterClient
from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient
from tests.lab.cluster import KafkaCluster

VERSIONS = ["kafka41", "kafka28", "kafka39", "kafka44"]


def each_of(*versions: str, scope: Literal["function", "session"] = "function") -> Any:
    """Return a fixture that is a cluster of each of these versions in turn."""

    @pytest.fixture(params=versions, scope=scope)
    def cluster_of(request: pytest.FixtureRequest) -> KafkaCluster:
        cluster: KafkaCluster = request.getfixturevalue(request.param)
        return cluster

    return cluster_of


any_kafka = each_of(*VERSIONS, scope="session")


@pytest.fixture
async def client(kafka: KafkaCluster) -> AsyncIterator[ClusterClient]:
    """Return a client of the cluster that the module has as ``kafka``."""
    async with ClusterClient(config_of(kafka)) as cluster, asyncio.timeout(120):
        yield cluster


def config_of(cluster: KafkaCluster, **overrides: Any) -> ClientConfig:
    return ClientConfig.from_librdkafka({"bootstrap.servers": cluster.bootstrap}, **overrides)


def connection_client(config: ClientConfig) -> MaintenanceClient:
    """Return the client of a connection that forbids nothing: it knows topic ids, which the core does not."""
    return MaintenanceClient(config, ConnectionSettings(conn_id="lab", properties={}))
