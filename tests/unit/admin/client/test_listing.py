"""Listings of products that leave groups out, and descriptions of clusters whose brokers cannot all be reached."""

from __future__ import annotations

import asyncio
import re

import pytest

from airflow_kafka_groups.admin import AdminClient, ClientConfig
from airflow_kafka_groups.cluster import products
from airflow_kafka_groups.exceptions import ConnectionFailedError, EmptyGroupsNotListedError, IncompleteListingError
from airflow_kafka_groups.transport.base import BrokerConnection
from airflow_kafka_groups.transport.connection import open_connection
from airflow_kafka_groups.transport.security import SecurityConfig
from tests.fakes.cluster import MODERN, FakeCluster
from tests.unit.admin.client.faults import GROUPS, client


async def test_a_listing_without_empty_groups_is_never_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_SERVERS", ((re.compile(""), products.EVENT_HUBS),))  # whatever the server's name is
    async with FakeCluster(groups=set(GROUPS)) as fake, client(fake) as admin:
        listing = await admin.list_groups()
        deleted = await admin.delete_consumer_groups(GROUPS)
    assert set(listing) == set(GROUPS)
    assert {type(error) for error in listing.errors.values()} == {EmptyGroupsNotListedError}
    with pytest.raises(IncompleteListingError, match=r"Azure Event Hubs lists groups with members only.*the groups$"):
        listing.require_complete()
    assert {type(error) for error in deleted.failed.values()} == {IncompleteListingError}


async def test_other_products_are_listed_as_kafka_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_SERVERS", ((re.compile(""), products.CONFLUENT_CLOUD),))
    async with FakeCluster(groups=set(GROUPS)) as fake, client(fake) as admin:
        assert (await admin.list_groups()).complete


async def test_brokers_that_cannot_be_reached_are_waited_for_side_by_side() -> None:
    async def connect(host: str, port: int) -> BrokerConnection:
        if port == port_of_first:
            return await open_connection(host, port, security=SecurityConfig(), client_id="t", timeout=5)
        await asyncio.sleep(0.4)
        raise ConnectionFailedError(f"{host}:{port}", "no Kafka broker answered")

    async with FakeCluster(versions=dict.fromkeys(range(1, 12), MODERN)) as fake:
        bootstrap = fake.bootstrap.split(",")[0]
        port_of_first = int(bootstrap.rpartition(":")[2])
        async with AdminClient(ClientConfig.from_librdkafka({"bootstrap.servers": bootstrap}), connect) as admin:
            async with asyncio.timeout(2):
                described = await admin.describe_cluster()
    assert len(described.api_versions) == 1
    assert len(described.errors) == 10
