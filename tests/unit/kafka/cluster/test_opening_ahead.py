"""What was opened ahead is closed, however soon the client is."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from airflow_kafka_groups.kafka.cluster.client import ClusterClient
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.transport.base import BrokerConnection
from airflow_kafka_groups.kafka.transport.connection import open_connection
from airflow_kafka_groups.kafka.transport.security import SecurityConfig
from tests.fakes.cluster import FakeCluster


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
            return cast("BrokerConnection", connection)

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
