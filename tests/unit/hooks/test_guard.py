"""What a connection forbids is refused in the client itself, whoever uses it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError
from airflow_kafka_groups.hooks.connection import ConnectionSettings
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient
from airflow_kafka_groups.kafka.models import OffsetAndMetadata, TopicPartition
from tests.fakes.cluster import FakeCluster

OFFSETS = {TopicPartition("t", 0): OffsetAndMetadata(1)}


@asynccontextmanager
async def client(**switches: Any) -> AsyncIterator[tuple[MaintenanceClient, FakeCluster]]:
    """Connect a connection's client to a scripted cluster."""
    settings = ConnectionSettings(conn_id="c", properties={}, **switches)
    async with FakeCluster(groups={"a", "b", "connect-a", "connect-b"}) as fake:
        config = ClientConfig.from_librdkafka({"bootstrap.servers": fake.bootstrap})
        async with MaintenanceClient(config, settings) as admin:
            yield admin, fake


def changed(fake: FakeCluster) -> set[str]:
    """Return the groups that a request named which changes groups."""
    changing = {"DeleteGroups", "OffsetCommit", "OffsetDelete"}
    return {key for sent in fake.sent if sent.api in changing for key in sent.keys}


async def test_a_protected_group_fails_alone_and_a_read_only_connection_deletes_nothing() -> None:
    async with client(protected_groups=("connect-*",)) as (admin, fake):
        results = await admin.delete_consumer_groups(["b", "connect-a", "a"])
        assert list(results) == ["b", "connect-a", "a"]
        assert list(results.failed) == ["connect-a"]
        assert "protected" in str(results.failed["connect-a"])
        assert changed(fake) == {"b", "a"}
    async with client(read_only=True) as (admin, fake):
        asked_before = len(fake.sent)
        for group_ids in (["a"], list[str]()):
            with pytest.raises(ConfigurationError, match="read-only"):
                await admin.delete_consumer_groups(group_ids)
        assert len(fake.sent) == asked_before


async def test_offsets_are_changed_only_where_that_is_allowed() -> None:
    async with client(protected_groups=("connect-*",)) as (admin, fake):
        results = await admin.alter_consumer_group_offsets({"connect-a": OFFSETS, "connect-b": {}, "a": OFFSETS})
        assert list(results.failed) == ["connect-a", "connect-b"]
        await admin.delete_consumer_group_offsets("b", list(OFFSETS))
        with pytest.raises(KafkaGroupsError, match="protected"):
            await admin.delete_consumer_group_offsets("connect-b", list(OFFSETS))
        with pytest.raises(KafkaGroupsError, match="protected"):
            await admin.join_and_leave("connect-b", ["t"], ["range"])
        assert changed(fake) == {"a", "b"}
    async with client(read_only=True) as (admin, fake):
        with pytest.raises(ConfigurationError, match="read-only"):
            await admin.alter_consumer_group_offsets({"a": OFFSETS})
        with pytest.raises(ConfigurationError, match="read-only"):
            await admin.delete_consumer_group_offsets("a", list(OFFSETS))
        with pytest.raises(ConfigurationError, match="read-only"):
            await admin.join_and_leave("a", ["t"], ["range"])
        assert changed(fake) == set()


def test_the_connections_client_changes_nothing_by_itself() -> None:
    """The policy is asked by ``AdminClient``; what is added to it has to ask it, too, as the tests above show."""
    own = {name for name in vars(MaintenanceClient) if not name.startswith("_")}
    assert own == {"connection", "topic_ids", "read_records", "offsets_retention", "join_and_leave"}
