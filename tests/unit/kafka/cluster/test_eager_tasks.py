"""A loop whose tasks begin at once, as ``asyncio.eager_task_factory`` of Python 3.12 makes them."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from functools import partial
from typing import Any, cast

from airflow_kafka_groups.kafka.cluster.client import ClusterClient
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.transport.base import BrokerConnection
from airflow_kafka_groups.kafka.transport.connection import open_connection
from airflow_kafka_groups.kafka.transport.security import SecurityConfig
from tests.fakes.cluster import MODERN, FakeCluster


def eager(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **_: Any) -> asyncio.Future[Any]:
    """Make a task; the first step of the client's own is done before anybody has the task, on any Python."""
    if not getattr(coroutine, "__qualname__", "").startswith(ClusterClient.__name__):
        return asyncio.Task(coroutine, loop=loop)
    try:
        awaited = coroutine.send(None)
    except BaseException as ended:  # noqa: BLE001  # handed over
        future = loop.create_future()
        future.set_result(ended.value) if isinstance(ended, StopIteration) else future.set_exception(ended)
        return future

    @types.coroutine
    def rest() -> Generator[Any, Any, Any]:
        waits_for = awaited
        while True:
            try:
                sent = yield waits_for
            except BaseException as error:  # noqa: BLE001  # as the task itself would throw it
                step = partial(coroutine.throw, error)
            else:
                step = partial(coroutine.send, sent)
            try:
                waits_for = step()
            except StopIteration as ended:
                return ended.value

    return asyncio.Task(rest(), loop=loop)


async def test_a_broker_that_could_not_be_reached_has_no_connection_that_nobody_closes() -> None:
    """The metadata that it is looked for in is asked of any broker, itself among them, before others know of it."""
    opened: list[BrokerConnection] = []

    async def connect(host: str, port: int) -> BrokerConnection:
        connection = await open_connection(host, port, security=SecurityConfig(), client_id="t", timeout=5.0)
        opened.append(cast("BrokerConnection", connection))
        return opened[-1]

    async with FakeCluster({1: MODERN}) as fake:
        config = ClientConfig.from_librdkafka({"bootstrap.servers": fake.bootstrap})
        async with ClusterClient(config, connect) as client:
            (broker_id,) = client.metadata.brokers
            await client.connection(broker_id)
            await client._connections.pop((broker_id, 0)).aclose()
            client._unreached.add(broker_id)
            asyncio.get_running_loop().set_task_factory(cast("Any", eager))
            await client.connection(broker_id)
            asyncio.get_running_loop().set_task_factory(None)
        assert not [connection for connection in opened if connection.usable], "all are closed with the client"
