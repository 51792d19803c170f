"""What the scripts of faults share: a client of a scripted cluster, and the groups they ask for."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from airflow_kafka_groups.kafka import AdminClient, ClientConfig
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from tests.fakes.cluster import FakeCluster

GROUPS = [f"g{i}" for i in range(40)]
NONE = ErrorCode.none


@asynccontextmanager
async def client(fake: FakeCluster, **overrides: Any) -> AsyncIterator[AdminClient]:
    async with AdminClient(ClientConfig.from_librdkafka({"bootstrap.servers": fake.bootstrap}, **overrides)) as admin:
        yield admin


def owned_by(fake: FakeCluster, broker_id: int) -> list[str]:
    return [group for group in GROUPS if fake.coordinator(group) == broker_id]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  # sockets close when the other side notices: there is no event
            await asyncio.sleep(0.01)
