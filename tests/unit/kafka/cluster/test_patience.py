"""Clocks, and how long a silent broker is waited for."""

import asyncio
import time

import pytest

from airflow_kafka_groups.exceptions import ConnectionFailedError, DeadlineExceededError, OutcomeUnknownError
from airflow_kafka_groups.kafka.cluster import client as cluster_client
from airflow_kafka_groups.kafka.cluster.client import Patience
from airflow_kafka_groups.kafka.cluster.clock import now
from airflow_kafka_groups.kafka.models import OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.kafka.protocol.api_versions import (
    FIND_COORDINATOR,
    LIST_GROUPS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
)
from tests.fakes.cluster import MODERN, Drop, FakeCluster
from tests.unit.kafka.admin.client.faults import GROUPS, client, owned_by

ALL_CALLS = 1.5


def three_brokers() -> FakeCluster:
    return FakeCluster(dict.fromkeys((1, 2, 3), MODERN), groups=set(GROUPS))


FROZEN = (FIND_COORDINATOR, LIST_GROUPS, METADATA, OFFSET_COMMIT, OFFSET_FETCH)


def freeze(fake: FakeCluster) -> None:
    for api in FROZEN:
        fake.control(api, lambda broker_id, _version, _request: Drop if broker_id == 3 else None)


@pytest.fixture(autouse=True)
def short_last_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_client, "LAST_TRY", 0.1)


async def test_calls_after_one_that_waited_in_vain_do_not_wait_again() -> None:
    async with three_brokers() as fake, client(fake, request_timeout=5.0, api_timeout=ALL_CALLS) as admin:
        freeze(fake)
        lost = set(owned_by(fake, 3))
        assert list((await admin.list_groups()).errors) == [3]
        for _ in range(10):
            began = time.monotonic()
            found = await admin.list_consumer_group_offsets(GROUPS)
            assert set(found.failed) == lost, "those of the others are there"
            assert all(isinstance(error, DeadlineExceededError) for error in found.failed.values())
            assert "broker 3" in str(found.failed[min(lost)])
            assert time.monotonic() - began < ALL_CALLS, "each call waited for as long as the first"


async def test_any_answer_restarts_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    thawed = asyncio.Event()

    async def wait(broker_id: int, _version: int, _request: object) -> None:
        if broker_id == 3:
            await thawed.wait()

    async with three_brokers() as fake, client(fake, request_timeout=5.0, api_timeout=ALL_CALLS) as admin:
        for api in FROZEN:
            fake.control(api, wait)
        assert not (await admin.list_groups()).complete
        thawed.set()
        monkeypatch.setattr(cluster_client, "LAST_TRY", 30.0)  # a busy machine takes a while
        assert (await admin.list_groups()).complete
        assert not admin._calls.cluster.patience.is_silent(3)


async def test_a_call_that_its_caller_left_says_nothing_of_the_broker() -> None:
    async with three_brokers() as fake, client(fake, request_timeout=5.0, api_timeout=ALL_CALLS) as admin:
        freeze(fake)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await admin.list_groups()
        await asyncio.sleep(0.2)
        assert not admin._calls.cluster.patience.is_silent(3)


@pytest.mark.safety
async def test_a_change_that_was_sent_is_waited_for_all_the_same() -> None:
    async with three_brokers() as fake, client(fake, request_timeout=5.0, api_timeout=ALL_CALLS) as admin:
        (await admin.list_groups()).require_complete()
        freeze(fake)
        admin._calls.cluster.patience._since[3] = time.monotonic() - 60
        began = time.monotonic()
        group_id = owned_by(fake, 3)[0]
        found = await admin.alter_consumer_group_offsets({group_id: {TopicPartition("t", 0): OffsetAndMetadata(1)}})
        assert isinstance(found.failed[group_id], OutcomeUnknownError)
        assert time.monotonic() - began >= ALL_CALLS - 0.1


async def test_an_answer_is_waited_for_as_long_as_is_left() -> None:
    waiting = Patience(0.3)
    waiting.asked(7)
    await asyncio.sleep(0.15)
    with pytest.raises(ConnectionFailedError, match="broker 7"):
        await waiting.wait(asyncio.sleep(5), 7)
    began = time.monotonic()
    with pytest.raises(ConnectionFailedError):
        await waiting.wait(asyncio.sleep(5), 7)
    assert 0.05 < time.monotonic() - began < 0.3
    assert await waiting.wait(asyncio.sleep(0.01, "answer"), 7) == "answer"
    assert waiting.left(7) > 1_000


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="only Linux has this clock")
def test_linux_counts_the_time_in_suspend_by_itself() -> None:
    assert now() == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME), abs=1)
