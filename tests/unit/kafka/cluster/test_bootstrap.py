"""Bootstrap: the first server that answers, and connections opened ahead."""

import asyncio
from typing import Any, cast

import pytest

from airflow_kafka_groups.exceptions import AuthenticationFailedError, ConnectionFailedError, NoBrokerAvailableError
from airflow_kafka_groups.kafka.cluster.bootstrap import ClusterMetadata, Openings, bootstrap, close_all
from airflow_kafka_groups.kafka.cluster.client import ClusterClient
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.transport.connection import BrokerConnection, open_connection
from airflow_kafka_groups.kafka.transport.security import SecurityConfig
from tests.fakes.cluster import FakeCluster

SERVERS = ("a:1", "b:1", "c:1", "d:1")
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"}
CLUSTER = ClusterMetadata()


class Connection:
    def __init__(self, diary: list[str], name: str) -> None:
        self._diary, self.name = diary, name

    async def aclose(self) -> None:
        self._diary.append(f"close {self.name}")


class Scene:
    """Open connections and ask, each as it is told, and write down what happened."""

    def __init__(self, *servers: str, settings: dict[str, str] | None = None) -> None:
        self.diary: list[str] = []
        self.refuses: dict[str, Exception] = {}
        self.says_nothing: set[str] = set()
        self.config = ClientConfig.from_librdkafka({"bootstrap.servers": ",".join(servers), **(settings or {})})
        self.openings: Openings = {}

    async def metadata(self) -> ClusterMetadata:
        return await bootstrap(self.config, self.connect, self.ask, self.openings)

    async def aclose(self) -> None:
        await close_all(self.openings.values())

    async def connect(self, host: str, port: int) -> BrokerConnection:
        self.diary.append(f"connect {host}")
        await asyncio.sleep(0)
        if host in self.refuses:
            raise self.refuses[host]
        return cast(BrokerConnection, Connection(self.diary, host))

    async def ask(self, connection: Any) -> ClusterMetadata:
        self.diary.append(f"ask {connection.name}")
        await asyncio.sleep(0.01)
        if connection.name in self.says_nothing:
            raise ConnectionFailedError(connection.name, "hung up")
        return CLUSTER


@pytest.fixture(autouse=True)
def in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.sample", lambda population, k: list(population)[:k])


async def test_three_servers_are_connected_to_at_once_and_one_is_asked() -> None:
    scene = Scene(*SERVERS)
    assert await scene.metadata() is CLUSTER
    assert scene.diary == ["connect a", "connect b", "connect c", "ask a"]
    assert [cast(Any, await opening).name for opening in scene.openings.values()] == ["a", "b", "c"]


async def test_with_a_password_the_others_wait_until_one_has_let_us_in() -> None:
    scene = Scene(*SERVERS, settings=SASL)
    await scene.metadata()
    assert scene.diary == ["connect a", "ask a", "connect b", "connect c"]
    await scene.aclose()


async def test_a_wrong_password_is_tried_once() -> None:
    scene = Scene(*SERVERS, settings=SASL)
    scene.refuses = dict.fromkeys("abcd", AuthenticationFailedError("a:1", "wrong password"))
    with pytest.raises(AuthenticationFailedError):
        await scene.metadata()
    assert scene.diary == ["connect a"]


async def test_what_nobody_takes_is_closed() -> None:
    scene = Scene(*SERVERS)
    await scene.metadata()
    del scene.openings["b", 1]
    await scene.aclose()
    assert sorted(scene.diary[4:]) == ["close a", "close c"]


async def test_one_that_failed_is_not_asked_again() -> None:
    scene = Scene(*SERVERS)
    scene.refuses = {"a": ConnectionFailedError("a:1", "refused"), "c": ConnectionFailedError("c:1", "refused")}
    assert await scene.metadata() is CLUSTER
    assert scene.diary == ["connect a", "connect b", "connect c", "ask b"]
    await scene.aclose()


@pytest.mark.parametrize("servers", [("a:1", "b:1"), ("a:1", "a:1", "b:1", "a:1")], ids=["two", "named-twice"])
async def test_each_server_is_asked_once_and_closed_when_none_answers(servers: tuple[str, ...]) -> None:
    scene = Scene(*servers)
    scene.says_nothing = {"a", "b"}
    with pytest.raises(NoBrokerAvailableError, match="hung up") as failed:
        await scene.metadata()
    await scene.aclose()
    assert sorted(scene.diary) == ["ask a", "ask b", "close a", "close b", "connect a", "connect b"]
    assert str(failed.value).count("hung up") == 2
    assert "Check the bootstrap servers, and whether their listeners take the security protocol" in str(failed.value)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_client_that_is_closed_at_once_leaves_no_connection_open(fails: bool) -> None:
    """The other broker is being connected to, and what waits for it has not begun when the client is closed."""
    opened: list[BrokerConnection] = []
    unheard: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context["message"]))
    slow, first = asyncio.Event(), list[int]()
    async with FakeCluster() as fake:

        async def connect(host: str, port: int) -> BrokerConnection:
            first.append(port)
            if port != first[0]:
                await slow.wait()
                if fails:
                    raise OSError
            connection = await open_connection(host, port, security=SecurityConfig(), client_id="t", timeout=5.0)
            opened.append(connection)
            return connection

        config = ClientConfig.from_librdkafka({"bootstrap.servers": fake.bootstrap})
        async with ClusterClient(config, connect):
            pass
        slow.set()
        for _ in range(50):
            await asyncio.sleep(0.001)
        left = [task for task in asyncio.all_tasks() if "bootstrap" in task.get_name()]
        assert not left
        assert [connection.usable for connection in opened] == [False]
    assert unheard == []
