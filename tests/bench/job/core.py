"""The core's own calls for the same groups: no storage, plan, journal or Airflow. Steps are divided by them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from airflow_kafka_groups.kafka import AdminClient, ClientConfig
from airflow_kafka_groups.kafka.models import OffsetAndMetadata, TopicPartition
from tests.bench.job.groups import OFFSETS, PREFIX, group_ids

Timed = tuple[float, float]
"""Seconds, and processor seconds."""


async def list_offsets(config: ClientConfig, groups: int) -> Timed:
    with Stopwatch() as watch:
        async with AdminClient(config) as admin:
            listed = (await admin.list_groups()).require_complete()
            found = await admin.list_consumer_group_offsets([name for name in listed if name.startswith(PREFIX)])
    found.raise_for_errors()
    assert sum(len(offsets) == len(OFFSETS) for offsets in found.succeeded.values()) == groups
    return watch.taken


async def delete(config: ClientConfig, groups: int) -> Timed:
    """Delete them; that their offsets are known before is not timed."""
    async with AdminClient(config) as admin:
        offsets = (await admin.list_consumer_group_offsets(group_ids(groups))).succeeded
    with Stopwatch() as watch:
        async with AdminClient(config) as admin:
            results = await admin.delete_consumer_groups(offsets, offsets=offsets)
    results.raise_for_errors()
    assert len(results) == groups
    return watch.taken


async def commit(config: ClientConfig, groups: int) -> Timed:
    of_group = {TopicPartition(*at): OffsetAndMetadata(offset) for at, offset in OFFSETS.items()}
    offsets = dict.fromkeys(group_ids(groups), of_group)
    with Stopwatch() as watch:
        async with AdminClient(config) as admin:
            results = await admin.alter_consumer_group_offsets(offsets)
    results.raise_for_errors()
    return watch.taken


CALLS: dict[str, Callable[[ClientConfig, int], Awaitable[Timed]]] = {
    "core_list": list_offsets,
    "core_delete": delete,
    "core_commit": commit,
}


def run(name: str, bootstrap: str, groups: int) -> Timed:
    """Make one of the calls with a new client."""
    config = ClientConfig.from_librdkafka({"bootstrap.servers": bootstrap}, api_timeout=300)

    async def call() -> Timed:
        return await CALLS[name](config, groups)

    return asyncio.run(call())


class Stopwatch:
    """Time and processor time of a ``with`` block."""

    taken: Timed

    def __enter__(self) -> Stopwatch:
        self._began = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.taken = time.perf_counter() - self._began[0], time.process_time() - self._began[1]
