"""A deletion or a commit leaves within the time it is given, or not at all: a slow broker must not make it late."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError, DeadlineExceededError, NotSentError
from airflow_kafka_groups.kafka import AdminClient, ClientConfig
from airflow_kafka_groups.kafka.cluster import clock
from airflow_kafka_groups.kafka.models import OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.kafka.protocol.api_versions import DELETE_GROUPS, LIST_GROUPS, OFFSET_COMMIT
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from airflow_kafka_groups.kafka.transport.base import BrokerConnection
from airflow_kafka_groups.kafka.transport.connection import open_connection
from airflow_kafka_groups.kafka.transport.security import SecurityConfig
from tests.fakes import answers
from tests.fakes.cluster import FakeCluster
from tests.unit.kafka.admin.client.faults import GROUPS, client

pytestmark = pytest.mark.safety


def deletions(fake: FakeCluster) -> list[str]:
    return [key for sent in fake.sent if sent.api == DELETE_GROUPS.name for key in sent.keys]


async def test_nothing_leaves_after_a_check_of_types_that_took_too_long() -> None:
    async with FakeCluster(groups=set(GROUPS)) as fake, client(fake) as admin:

        async def slowly(_broker: int, _version: int, _request: Any) -> None:
            await asyncio.sleep(0.3)

        fake.control(LIST_GROUPS, slowly)
        results = await admin.delete_consumer_groups(GROUPS, send_within=0.1)
        assert all(isinstance(result.error, NotSentError) for result in results.values())
        assert deletions(fake) == []
        assert fake.groups == set(GROUPS)


async def test_retries_leave_within_the_time_too() -> None:
    async with FakeCluster(groups={"g"}) as fake, client(fake) as admin:
        loading = ErrorCode.coordinator_load_in_progress
        fake.control(DELETE_GROUPS, lambda _id, version, _request: answers.delete_groups(version, {"g": loading}))
        begun = asyncio.get_running_loop().time()
        results = await admin.delete_consumer_groups(["g"], send_within=0.5)
        assert isinstance(results["g"].error, NotSentError)
        tries = [sent.at for sent in fake.sent if sent.api == DELETE_GROUPS.name]
        assert len(tries) > 1
        assert max(tries) - begun < 0.6
        assert fake.groups == {"g"}


async def test_a_machine_that_slept_in_between_sends_nothing_when_it_wakes_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop's clock stops during suspend: by it, no time has passed."""
    slept = [0.0]
    monkeypatch.setattr(clock, "now", lambda: 1_000 + slept[0])
    async with FakeCluster(groups=set(GROUPS)) as fake, client(fake) as admin:

        def sleep_meanwhile(_broker: int, _version: int, _request: Any) -> None:
            slept[0] = 3_600.0

        fake.control(LIST_GROUPS, sleep_meanwhile)
        results = await admin.delete_consumer_groups(GROUPS, send_within=15)
        assert all(isinstance(result.error, NotSentError) for result in results.values())
        assert deletions(fake) == []
        assert fake.groups == set(GROUPS)


async def test_in_time_it_is_a_deletion_like_any_other() -> None:
    async with FakeCluster(groups={"g"}) as fake, client(fake) as admin:
        results = await admin.delete_consumer_groups(["g"], send_within=30)
        assert results["g"].ok
        assert fake.groups == set()


async def test_a_commit_leaves_in_time_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    commit = {"g": {TopicPartition("t", 0): OffsetAndMetadata(7)}}
    async with FakeCluster(groups={"g"}) as fake, client(fake) as admin:
        assert (await admin.alter_consumer_group_offsets(commit, send_within=30))["g"].ok
        assert len(fake.requests(OFFSET_COMMIT)) == 1
        slept = [0.0]
        monkeypatch.setattr(clock, "now", lambda: 1_000 + slept[0])

        def sleep_meanwhile(_broker: int, version: int, _request: Any) -> Any:
            slept[0] = 3_600.0
            return answers.offset_commit(version, {("t", 0): ErrorCode.coordinator_load_in_progress})

        fake.control(OFFSET_COMMIT, sleep_meanwhile)
        assert isinstance((await admin.alter_consumer_group_offsets(commit, send_within=15))["g"].error, NotSentError)
        assert len(fake.requests(OFFSET_COMMIT)) == 2, "it is not tried again"


async def test_a_process_that_is_stopped_while_it_connects_sends_nothing_after_the_calls_deadline() -> None:
    stopped = [False]

    async def connect(host: str, port: int) -> BrokerConnection:
        connection = await open_connection(host, port, security=SecurityConfig(), client_id="t", timeout=5)
        if stopped[0]:
            time.sleep(1)  # noqa: ASYNC251  # the complete process stands still
        return connection

    async with FakeCluster(groups={"g"}) as fake:
        config = ClientConfig.from_librdkafka({"bootstrap.servers": fake.bootstrap}, api_timeout=0.5)
        async with AdminClient(config, connect) as admin:
            for broker_id in (1, 2):
                await (await admin._calls.cluster.connection(broker_id)).aclose()
            stopped[0] = True
            results = await admin.alter_consumer_group_offsets({"g": {TopicPartition("t", 0): OffsetAndMetadata(7)}})
            await asyncio.sleep(0.1)
            assert fake.requests(OFFSET_COMMIT) == []
            assert isinstance(results["g"].error, DeadlineExceededError)


async def test_a_change_that_still_waits_for_a_connection_at_the_deadline_has_not_happened() -> None:
    hung = [False]

    async def connect(host: str, port: int) -> BrokerConnection:
        if hung[0]:
            await asyncio.sleep(60)  # a broker behind a firewall that drops packets
        return await open_connection(host, port, security=SecurityConfig(), client_id="t", timeout=5)

    async with FakeCluster(groups={"g"}) as fake:
        config = ClientConfig.from_librdkafka({"bootstrap.servers": fake.bootstrap}, api_timeout=0.5)
        async with AdminClient(config, connect) as admin:
            for broker_id in (1, 2):
                await (await admin._calls.cluster.connection(broker_id)).aclose()
            hung[0] = True
            results = await admin.alter_consumer_group_offsets({"g": {TopicPartition("t", 0): OffsetAndMetadata(7)}})
        assert fake.requests(OFFSET_COMMIT) == []
    assert isinstance(results["g"].error, NotSentError), "it is known that nothing was committed"


@pytest.mark.parametrize("seconds", [float("nan"), "3"])
async def test_a_time_that_is_no_number_is_refused_before_anything_is_sent(seconds: float) -> None:
    """No time is later than NaN: a request would leave however old the reading is."""
    where = TopicPartition("t", 0)
    async with FakeCluster(groups={"g0"}) as fake, client(fake) as admin:
        for change in (
            admin.delete_consumer_groups(["g0"], send_within=seconds),
            admin.alter_consumer_group_offsets({"g0": {where: OffsetAndMetadata(1)}}, send_within=seconds),
            admin.delete_consumer_group_offsets("g0", [where], send_within=seconds),
        ):
            with pytest.raises(ConfigurationError, match=r"send_within.*: give a number of seconds"):
                await change
    assert fake.groups == {"g0"}
    assert not {sent.api for sent in fake.sent} & {"DeleteGroups", "OffsetCommit", "OffsetDelete"}
