"""Listings that leave groups out: of products that do so, and of brokers whose groups move; brokers that are down."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConnectionFailedError, EmptyGroupsNotListedError, IncompleteListingError
from airflow_kafka_groups.kafka import AdminClient, ClientConfig
from airflow_kafka_groups.kafka.cluster import products
from airflow_kafka_groups.kafka.cluster.routing import OFFSETS_TOPIC
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.kafka.protocol.api_versions import LIST_GROUPS
from airflow_kafka_groups.kafka.transport.base import BrokerConnection
from airflow_kafka_groups.kafka.transport.connection import open_connection
from airflow_kafka_groups.kafka.transport.security import SecurityConfig
from tests.fakes.cluster import MODERN, PARTITIONS, FakeCluster
from tests.unit.kafka.admin.client.faults import GROUPS, client


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


class Moving:
    """Let partitions of ``__consumer_offsets`` go from broker 2, before it answers, to broker 1, which has answered."""

    def __init__(self, fake: FakeCluster, times: int) -> None:
        self._fake = fake
        self._left = times
        fake.control(LIST_GROUPS, self._move)

    async def _move(self, broker_id: int, version: int, request: Any) -> None:
        while broker_id == 2 and len(self._fake.requests(LIST_GROUPS)) % 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # broker 1 answers first
        if broker_id == 2 and self._left:
            self._left -= 1
            await asyncio.sleep(0.05)
            some = self._left % 4  # not those of before, also where brokers are asked twice
            self._fake.leaders = {partition: 1 for partition in range(PARTITIONS) if partition % 4 == some}


async def test_a_group_that_moves_to_a_broker_that_has_answered_is_listed_all_the_same() -> None:
    async with FakeCluster(groups=set(GROUPS)) as fake, client(fake) as admin:
        Moving(fake, 1)
        listing = await admin.list_groups()
    assert listing.complete
    assert set(listing) == set(GROUPS)


async def test_a_listing_whose_partitions_move_again_and_again_is_not_complete() -> None:
    async with FakeCluster(groups=set(GROUPS)) as fake, client(fake) as admin:
        Moving(fake, 99)
        listing = await admin.list_groups()
    assert not listing.complete
    assert {where.topic for where in listing.errors if isinstance(where, TopicPartition)} == {OFFSETS_TOPIC}
    with pytest.raises(
        IncompleteListingError, match=r"\d\d partition\(s\) moved to another broker.*: __consumer_offsets-\d, "
    ):
        listing.require_complete()


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
