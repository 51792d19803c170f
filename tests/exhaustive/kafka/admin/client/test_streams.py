"""Streams of offsets have every group once and end with a silent broker; topics are seen or not."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.kafka import AdminClient, ClientConfig
from airflow_kafka_groups.kafka.admin.client import calls
from airflow_kafka_groups.kafka.protocol.answers import MetadataAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import OFFSET_FETCH
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from tests.fakes.cluster import Drop, FakeCluster
from tests.fakes.raw_cluster import PARTITIONS_OF_GROUP, RawCluster
from tests.unit.kafka.admin.client.faults import GROUPS, client, owned_by

WINDOW = 100


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_STREAM_WINDOW", WINDOW)


@asynccontextmanager
async def streaming(*, batched: bool = True, **overrides: Any) -> AsyncIterator[AdminClient]:
    async with RawCluster(batched=batched) as cluster:
        config = ClientConfig.from_librdkafka({"bootstrap.servers": cluster.bootstrap}, **overrides)
        async with AdminClient(config) as admin:
            yield admin


@pytest.mark.parametrize("batched", [True, False])
async def test_a_stream_in_windows_has_every_group_once(batched: bool) -> None:
    group_ids = [f"group-{number:04d}" for number in range(5 * WINDOW + 7)]
    async with streaming(batched=batched) as admin:
        stream = admin.stream_consumer_group_offsets([*group_ids, *group_ids])
        seen = [(result.group_id, len(result.unwrap())) async for result in stream]
    assert sorted(seen) == [(group_id, PARTITIONS_OF_GROUP) for group_id in group_ids]


async def test_a_stream_makes_no_work_for_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_STREAM_WINDOW", 5_000)
    group_ids = [f"group-{number:05d}" for number in range(20_000)]
    collections: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            collections.append(info["generation"])

    async with streaming(batch_size=1_000) as admin:
        gc.collect()
        gc.callbacks.append(note)
        try:
            async for result in admin.stream_consumer_group_offsets(group_ids):
                assert result.ok
        finally:
            gc.callbacks.remove(note)
    assert len(collections) <= 3, collections


@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("slow_at", [0, WINDOW])
async def test_a_slow_reader_of_a_stream_loses_no_group(slow_at: int, blocking: bool) -> None:
    """In the first window, of which most is not sent yet, and in the next one."""
    errors: list[KafkaGroupsError | None] = []
    async with streaming(api_timeout=1.0, batch_size=5, batches_in_flight=1) as admin:
        async for result in admin.stream_consumer_group_offsets([f"g{number}" for number in range(2 * WINDOW)]):
            if len(errors) == slow_at:
                time.sleep(1.1) if blocking else await asyncio.sleep(1.1)  # noqa: ASYNC251  # as pyarrow blocks
            errors.append(result.error)
    assert errors == [None] * (2 * WINDOW)


async def test_a_silent_broker_ends_a_stream_however_slow_its_reader_is() -> None:
    errors: list[str] = []
    async with FakeCluster() as fake, client(fake, api_timeout=0.5, batch_size=5) as admin:
        fake.control(OFFSET_FETCH, lambda broker_id, *_: Drop if broker_id == 2 else None)
        async with asyncio.timeout(10):
            async for result in admin.stream_consumer_group_offsets(GROUPS):
                if result.error is None:
                    await asyncio.sleep(0.1)
                else:
                    errors.append(str(result.error))
        assert len(errors) == len(owned_by(fake, 2)) > 0
        assert all("waiting for broker 2" in error or "was not done in time" in error for error in errors)


CONFIG = ClientConfig(bootstrap_servers=(("b", 9092),))
CLEAR = (ErrorCode.none, ErrorCode.unknown_topic_or_partition)


class Told(AdminClient):
    def __init__(self, error: ErrorCode | None) -> None:
        super().__init__(CONFIG)
        self.error = error

    async def authorized_operations(self, topics: Iterable[str]) -> MetadataAnswer:
        if self.error is None:
            return MetadataAnswer("c", ())
        if self.error is ErrorCode.none:
            return MetadataAnswer("c", (), partition_counts=dict.fromkeys(topics, 1))
        return MetadataAnswer("c", (), errors=dict.fromkeys(topics, self.error))


@pytest.mark.safety
@pytest.mark.parametrize("error", [None, *ErrorCode])
async def test_only_a_clear_answer_says_that_topics_are_seen(error: ErrorCode | None) -> None:
    """A proxy that leaves the topic out, or any other error, must not make a backup pass for whole."""
    assert await Told(error).sees_all_topics() is (error in CLEAR)
