"""One cluster for each broker version, so that a test written once is run on all of them."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_groups.admin import ClientConfig
from airflow_kafka_groups.hooks.guard import GuardedAdminClient
from airflow_kafka_groups.hooks.settings import ConnectionSettings
from tests.lab.cluster import KafkaCluster

VERSIONS = ["kafka41", "kafka28", "kafka39", "kafka43"]


@pytest.fixture(params=VERSIONS, scope="session")
def any_kafka(request: pytest.FixtureRequest) -> KafkaCluster:
    """Return a cluster of each version in turn."""
    cluster: KafkaCluster = request.getfixturevalue(request.param)
    return cluster


def config_of(cluster: KafkaCluster, **overrides: Any) -> ClientConfig:
    return ClientConfig.from_librdkafka({"bootstrap.servers": cluster.bootstrap}, **overrides)


def connection_client(config: ClientConfig) -> GuardedAdminClient:
    """Return the client of a connection that forbids nothing: it knows topic ids, which the core does not."""
    return GuardedAdminClient(config, ConnectionSettings(conn_id="lab", properties={}))
