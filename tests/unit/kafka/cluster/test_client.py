"""Which connections a cluster's client opens and keeps, on a scripted cluster."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from airflow_kafka_groups.exceptions import (
    AuthenticationFailedError,
    ClientClosedError,
    ConnectionFailedError,
    NoBrokerAvailableError,
)
from airflow_kafka_groups.kafka import AdminClient
from airflow_kafka_groups.kafka.cluster.bootstrap import ClusterMetadata
from airflow_kafka_groups.kafka.cluster.client import ClusterClient
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.models import Broker
from airflow_kafka_groups.kafka.protocol.api_versions import API_VERSIONS, METADATA, OFFSET_FETCH
from airflow_kafka_groups.kafka.transport.connection import BrokerConnection, open_connection
from airflow_kafka_groups.kafka.transport.security import SecurityConfig
from tests.fakes.cluster import MODERN, Cut, Drop, FakeCluster

BROKERS = (1, 2, 3)


def client(fake: FakeCluster) -> ClusterClient:
    return ClusterClient(ClientConfig.from_librdkafka({"bootstrap.servers": fake.bootstrap}))


def opened(fake: FakeCluster) -> int:
    return len(fake.requests(API_VERSIONS))


async def test_a_bootstrap_server_that_is_a_broker_is_connected_to_once() -> None:
    async with FakeCluster(dict.fromkeys(BROKERS, MODERN)) as fake, client(fake) as cluster:
        connections = [await cluster.connection(broker_id) for broker_id in BROKERS]
        assert len(set(map(id, connections))) == opened(fake) == fake.open_connections == len(BROKERS)


async def test_the_kept_connection_goes_to_the_broker_it_is_kept_for() -> None:
    async with FakeCluster(dict.fromkeys(BROKERS, MODERN)) as fake, client(fake) as cluster:
        assert len(fake.requests(METADATA)) == 1
        for broker_id in BROKERS:
            await cluster.connection(broker_id)
        assert sorted(sent.broker_id for sent in fake.requests(API_VERSIONS)) == list(BROKERS)


def elsewhere(ports: Mapping[int, int]) -> Mapping[int, int]:
    """A cluster behind a load balancer: the address of the first response belongs to no broker."""
    return {broker_id: port + 1 for broker_id, port in ports.items()}


def in_one_place(ports: Mapping[int, int]) -> Mapping[int, int]:
    """Let everybody say that it is to be found at one address."""
    return dict.fromkeys(ports, next(iter(ports.values())))


@pytest.mark.parametrize("advertised", [elsewhere, in_one_place])
async def test_what_is_not_surely_a_brokers_own_address_is_let_go(
    advertised: Callable[[Mapping[int, int]], Mapping[int, int]],
) -> None:
    async with FakeCluster(dict.fromkeys(BROKERS, MODERN)) as fake:
        one = client(fake)
        one.config = ClientConfig.from_librdkafka({"bootstrap.servers": fake.bootstrap.split(",")[0]})
        fake.control(METADATA, lambda _, version, __: fake.metadata(version, ports=advertised(fake._ports)))
        async with one as cluster:
            assert not cluster._connections


async def test_connections_that_are_opened_ahead_and_go_to_no_known_broker_are_closed() -> None:
    async with FakeCluster(dict.fromkeys(BROKERS, MODERN)) as fake:
        fake.control(METADATA, lambda _, version, __: fake.metadata(version, ports=elsewhere(fake._ports)))
        one, made = client(fake), []
        connect = one.connect

        async def remember(host: str, port: int) -> BrokerConnection:
            made.append(await connect(host, port))  # or the garbage collector might close it
            return made[-1]

        one.connect = remember
        async with one as cluster:
            assert not cluster._connections
            assert not cluster._opening
            await asyncio.sleep(0.2)  # until the other end has noticed
            assert fake.open_connections == 0


async def test_a_bootstrap_connection_that_fails_is_closed_and_the_next_server_asked() -> None:
    async with FakeCluster(dict.fromkeys(BROKERS, MODERN)) as fake:
        answers = iter([Cut, Cut])
        fake.control(METADATA, lambda *_: next(answers, None))
        async with client(fake) as cluster:
            assert set(cluster.metadata.brokers) == set(BROKERS)
            assert opened(fake) == len(BROKERS)
            assert len(cluster._connections) == 1


async def test_a_kept_connection_that_broke_is_opened_again() -> None:
    async with FakeCluster(dict.fromkeys(BROKERS, MODERN)) as fake, client(fake) as cluster:
        await (await cluster.connection(BROKERS[0])).aclose()
        for broker_id in BROKERS:
            assert (await cluster.connection(broker_id)).usable
        assert opened(fake) == len(BROKERS) + 1


@asynccontextmanager
async def silent_server() -> AsyncIterator[str]:
    """A server that accepts connections and never responds, as behind some firewalls."""
    hung_up = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hung_up.wait()
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        hung_up.set()
        server.close()


@pytest.fixture
def first_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask bootstrap servers in the order in which they are given."""
    monkeypatch.setattr("random.sample", lambda population, k: list(population)[:k])


@pytest.mark.usefixtures("first_come")
async def test_a_server_that_never_answers_is_not_waited_for_where_another_one_does() -> None:
    async with silent_server() as silent, FakeCluster({1: MODERN}) as fake:
        before = asyncio.all_tasks()
        config = ClientConfig.from_librdkafka(
            {"bootstrap.servers": f"{silent},{fake.bootstrap}"}, connect_timeout=3600, api_timeout=3600
        )
        async with asyncio.timeout(30), ClusterClient(config) as cluster:
            assert set(cluster.metadata.brokers) == {1}
        assert not {task for task in asyncio.all_tasks() - before if "bootstrap" in task.get_name()}


async def test_every_server_that_failed_is_in_the_message() -> None:
    async with FakeCluster({1: MODERN, 2: MODERN}) as fake:
        fake.control(METADATA, lambda *_: Cut)
        with pytest.raises(NoBrokerAvailableError) as failed:
            async with client(fake):
                pass
    for server in fake.bootstrap.split(","):
        assert f"{server}" in str(failed.value)
    assert fake.open_connections == 0


async def test_cancelling_the_bootstrap_leaves_nothing_behind() -> None:
    async with FakeCluster({1: MODERN, 2: MODERN, 3: MODERN}) as fake:
        fake.control(METADATA, lambda *_: Drop)
        before = asyncio.all_tasks()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.5), client(fake):
                pass
        assert len(fake.requests(METADATA)) > 1, "the next server was asked as well"
        assert not {task for task in asyncio.all_tasks() - before if "bootstrap" in task.get_name()}


async def test_any_broker_will_do_and_one_that_is_connected_comes_first() -> None:
    async with FakeCluster(dict.fromkeys(BROKERS, MODERN)) as fake, client(fake) as cluster:
        (first,) = fake.requests(METADATA)
        there = [broker_id for broker_id in BROKERS if broker_id != first.broker_id]
        for broker_id in there:
            if (broker_id, 0) in cluster._connections:
                await cluster._connections.pop((broker_id, 0)).aclose()
        before = opened(fake)
        assert (await cluster.any_connection())[1].usable
        assert opened(fake) == before


async def test_a_broker_that_is_gone_is_passed_over_where_any_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeCluster(dict.fromkeys(BROKERS, MODERN)) as fake, client(fake) as cluster:
        connection, tried = cluster.connection, []

        async def only_the_last(broker_id: int) -> BrokerConnection:
            tried.append(broker_id)
            if len(tried) < len(BROKERS):
                raise ConnectionFailedError(f"b{broker_id}:9092", "refused")
            return await connection(broker_id)

        monkeypatch.setattr(cluster, "connection", only_the_last)
        assert (await cluster.any_connection())[1].usable
        assert sorted(tried) == list(BROKERS)


async def test_metadata_that_came_just_now_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeCluster(dict.fromkeys(BROKERS, MODERN)) as fake, client(fake) as cluster:
        for broker_id in BROKERS:
            await cluster.connection(broker_id)  # each broker says which cluster it is of
        before = len(fake.requests(METADATA))
        assert await cluster.fresh_metadata() is cluster.metadata
        assert len(fake.requests(METADATA)) == before
        monkeypatch.setattr(cluster, "_fresh_at", time.monotonic() - 1)
        await cluster.fresh_metadata()
        assert len(fake.requests(METADATA)) == before + 1


async def test_further_connections_are_opened_when_they_are_needed_and_closed_with_the_client() -> None:
    async with FakeCluster(dict.fromkeys(BROKERS, MODERN)) as fake:
        async with client(fake) as cluster:
            own = await cluster.connection(1)
            before = opened(fake)
            assert cluster.open_connection(1, 2) is None
            found = await asyncio.gather(*(cluster.connection(1, number) for number in (0, 1, 2, 2)))
            assert found[0] is own
            assert len(set(map(id, found))) == 3
            assert opened(fake) == before + 2
            assert cluster.open_connection(1, 2) is found[3]
        await asyncio.sleep(0.2)  # until the other end has noticed
        assert fake.open_connections == 0


async def test_a_further_connection_that_is_refused_is_not_missed_and_not_tried_at_once_again() -> None:
    """As with a broker's max.connections.per.ip."""
    async with FakeCluster(dict.fromkeys(BROKERS, MODERN)) as fake, client(fake) as cluster:
        own = await cluster.connection(1)
        fake.control(API_VERSIONS, lambda *_: Cut)
        before = opened(fake)
        assert await cluster.connection(1, 1) is own
        assert await cluster.connection(1, 1) is own
        assert opened(fake) == before + 1
        fake.control(API_VERSIONS, lambda *_: None)
        assert await cluster.connection(1, 2) is not own
        assert not cluster._unreached, "the broker's address is right"


async def test_a_further_connection_comes_after_the_brokers_own_so_that_a_login_is_tried_once() -> None:
    async with FakeCluster(dict.fromkeys(BROKERS, MODERN)) as fake, client(fake) as cluster:
        await (await cluster.connection(1)).aclose()
        refused = AuthenticationFailedError("b1:9092", "the password is wrong")
        tried: list[int] = []

        async def refuse(host: str, port: int) -> BrokerConnection:
            tried.append(port)
            raise refused

        cluster.connect = refuse
        attempts = (cluster.connection(1, number) for number in range(1, 9))
        results = await asyncio.gather(*attempts, return_exceptions=True)
        assert all(result is refused for result in results)
        assert len(tried) == 1


async def test_a_call_that_still_runs_when_the_client_is_closed_ends_and_opens_nothing() -> None:
    answering = asyncio.Event()

    async def hold(broker_id: int, version: int, request: object) -> None:
        answering.set()
        await asyncio.Event().wait()

    groups = [f"g{number}" for number in range(20)]
    async with FakeCluster(groups=set(groups)) as fake, asyncio.timeout(20):
        fake.control(OFFSET_FETCH, hold)
        async with AdminClient(ClientConfig.from_librdkafka({"bootstrap.servers": fake.bootstrap})) as client:
            call = asyncio.create_task(client.list_consumer_group_offsets(groups))
            await answering.wait()
        results = await call
        assert {type(result.error) for result in results.values()} == {ClientClosedError}
        assert not client._calls.cluster._connections
        listing = await client.list_groups()
        assert {type(error) for error in listing.errors.values()} == {ClientClosedError}
        fake.control(OFFSET_FETCH, lambda *_: None)
        async with client:
            assert (await client.list_consumer_group_offsets(groups)).succeeded, "it can be opened again"


async def test_who_waits_for_a_connection_when_the_client_is_closed_is_told() -> None:
    connecting = asyncio.Event()

    async def never(host: str, port: int) -> BrokerConnection:
        connecting.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with asyncio.timeout(5):
        client = ClusterClient(ClientConfig.from_librdkafka({"bootstrap.servers": "b:1"}), never)
        client.metadata = ClusterMetadata(brokers={1: Broker(broker_id=1, host="b", port=1)})
        client.home.open()
        waiting = asyncio.create_task(client.connection(1))
        await connecting.wait()
        await client.aclose()
        with pytest.raises(ClientClosedError):
            await waiting


async def test_a_connection_that_takes_nothing_new_is_replaced_when_what_is_under_way_is_answered() -> None:
    done: list[str] = []

    class Expiring:
        usable = True

        async def drain(self) -> None:
            done.append("drained")

        async def aclose(self) -> None:
            done.append("closed")

    async def connect(host: str, port: int) -> BrokerConnection:
        done.append("opened")
        return cast("BrokerConnection", Expiring())

    client = ClusterClient(ClientConfig.from_librdkafka({"bootstrap.servers": "b:1"}), connect)
    client.metadata = ClusterMetadata(brokers={1: Broker(broker_id=1, host="b", port=1)})
    client.home.open()
    first = await client.connection(1)
    assert await client.connection(1) is first
    cast("Any", first).usable = False
    assert await client.connection(1) is not first
    assert done == ["opened", "drained", "closed", "opened"]
    await client.aclose()


async def test_metadata_is_asked_of_a_broker_that_is_connected_to_while_others_are_down() -> None:
    async with FakeCluster(versions=dict.fromkeys(range(1, 12), MODERN)) as fake, asyncio.timeout(10):
        bootstrap = fake.bootstrap.split(",")[0]

        async def connect(host: str, port: int) -> BrokerConnection:
            if bootstrap.endswith(f":{port}"):
                return await open_connection(host, port, security=SecurityConfig(), client_id="t", timeout=5)
            down.append(port)
            raise ConnectionFailedError(f"{host}:{port}", "no Kafka broker answered")

        down: list[int] = []
        async with ClusterClient(ClientConfig.from_librdkafka({"bootstrap.servers": bootstrap}), connect) as cluster:
            for _ in range(3):
                await cluster.refresh()
    assert down == []


async def test_a_broker_s_address_that_leads_to_another_cluster_is_not_asked() -> None:
    groups = {f"group-{number}" for number in range(20)}
    async with (
        FakeCluster({1: MODERN, 2: MODERN}, groups=set(groups)) as fake,
        FakeCluster({1: MODERN, 2: MODERN}, groups=set(groups), cluster_id="other") as other,
    ):
        fake.control(METADATA, lambda _, version, __: fake.metadata(version, ports={**fake._ports, 2: other._ports[2]}))
        config = ClientConfig.from_librdkafka({"bootstrap.servers": f"127.0.0.1:{fake._ports[1]}"}, api_timeout=2.0)
        async with AdminClient(config) as admin:
            listed = await admin.list_groups()
            assert "cluster fake leads to cluster other" in str(listed.errors[2])
            assert set(listed) == {group for group in groups if fake.coordinator(group) == 1}
            deleted = await admin.delete_consumer_groups(sorted(groups))
        assert set(deleted.failed) == groups, "it is not known what types the groups of broker 2 have"
        assert {sent.api for sent in other.sent} == {"ApiVersions", "Metadata"}
        assert other.groups == groups


async def test_a_client_whose_addresses_are_another_cluster_s_by_now_stays_with_its_own() -> None:
    async with FakeCluster({1: MODERN, 2: MODERN}) as fake, client(fake) as cluster:
        for broker_id in (1, 2):
            await (await cluster.connection(broker_id)).aclose()
        fake.cluster_id = "other"
        with pytest.raises(NoBrokerAvailableError, match="cluster fake leads to cluster other now"):
            await cluster.refresh()
        with pytest.raises(ConnectionFailedError, match="cluster fake leads to cluster other now"):
            await cluster.connection(1)
        assert cluster.metadata.cluster_id == "fake"
