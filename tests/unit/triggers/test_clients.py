"""The client that triggers share: what a real AdminClient does when its cluster goes away or refuses its login."""

import asyncio
import json
import time
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import (
    AirflowUnavailableError,
    AuthenticationFailedError,
    DeadlineExceededError,
    MissingAnswerError,
    NoBrokerAvailableError,
    RequestTimeoutError,
)
from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook
from airflow_kafka_groups.kafka import AdminClient
from airflow_kafka_groups.kafka.cluster import client
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.kafka.protocol.api_versions import DESCRIBE_GROUPS, FIND_COORDINATOR, OFFSET_FETCH, Api
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from airflow_kafka_groups.kafka.transport.connection import open_connection
from airflow_kafka_groups.kafka.transport.security import SecurityConfig
from airflow_kafka_groups.triggers import clients
from airflow_kafka_groups.triggers.conditions import CoordinatorsAvailable, GroupsGone, OffsetsReached
from airflow_kafka_groups.triggers.events import GroupsEventTrigger
from airflow_kafka_groups.triggers.poll import ConditionTrigger
from tests.fakes import answers
from tests.fakes.admin import FakeAdmin
from tests.fakes.cluster import MODERN, OLD, Cut, FakeCluster
from tests.lab.machine.waiting import until_async
from tests.unit.triggers.conftest import fire, wait_for

T0 = TopicPartition("t", 0)
GONE = ErrorCode.group_id_not_found
NO_COORDINATOR = ErrorCode.coordinator_not_available


def trigger(target: int, **arguments: Any) -> ConditionTrigger:
    return wait_for(OffsetsReached(targets={"a": {T0: target}}), **arguments)


def waiting_for(*group_ids: str, **arguments: Any) -> ConditionTrigger:
    return wait_for(CoordinatorsAvailable(group_ids=group_ids), **arguments)


def lead_to(monkeypatch: pytest.MonkeyPatch, fake: FakeCluster) -> None:
    connection = {
        "conn_type": "kafka_groups",
        "host": fake.bootstrap,
        "extra": {"api_timeout_seconds": 1, "request_timeout_seconds": 1},
    }
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", json.dumps(connection))


@pytest.mark.usefixtures("_hurried")
async def test_a_password_that_is_refused_while_deferred_fails_and_is_not_tried_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logins = refused = 0
    rotated = False

    async def connect(host: str, port: int) -> Any:
        nonlocal logins, refused
        logins += 1
        if rotated:
            refused += 1
            raise AuthenticationFailedError(f"{host}:{port}", "SASL authentication was refused")
        return await open_connection(host, port, security=SecurityConfig(), client_id="x", timeout=5)

    async with FakeCluster({1: MODERN}) as fake:
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", '{"conn_type": "kafka_groups", "host": "b1:9092"}')
        config = ClientConfig.from_librdkafka({"bootstrap.servers": fake.bootstrap}, api_timeout=1.0)
        monkeypatch.setattr(KafkaGroupsHook, "get_conn", lambda self: AdminClient(config, connect))
        task = asyncio.create_task(fire(trigger(100, deadline=time.time() + 4)))
        await polled(fake, 2, OFFSET_FETCH)
        rotated = True  # an administrator changes the password, and the brokers close the connection
        fake.control(OFFSET_FETCH, lambda *_: Cut)
        event = await asyncio.wait_for(task, 20)
    assert event["status"] == "failed", (event, f"{refused} refused logins")
    assert refused <= 2


@pytest.mark.usefixtures("_hurried")
async def test_a_password_that_is_rotated_while_deferred_is_read_when_the_old_one_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passwords, valid = ["old"], "old"
    refused = 0

    class Settings:
        def __init__(self, password: str) -> None:
            self.password = password

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Settings) and self.password == other.password

    def made(_: Any) -> AdminClient:
        password = passwords[-1]

        async def connect(host: str, port: int) -> Any:
            nonlocal refused
            if password != valid:
                refused += 1
                raise AuthenticationFailedError(f"{host}:{port}", "SASL authentication was refused")
            return await open_connection(host, port, security=SecurityConfig(), client_id="x", timeout=5)

        admin = AdminClient(config, connect)
        admin.policy = Settings(password)  # type: ignore[attr-defined]  # as a MaintenanceClient has them
        return admin

    async with FakeCluster({1: MODERN}) as fake:
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", '{"conn_type": "kafka_groups", "host": "b1:9092"}')
        config = ClientConfig.from_librdkafka({"bootstrap.servers": fake.bootstrap}, api_timeout=1.0)
        monkeypatch.setattr(KafkaGroupsHook, "get_conn", made)
        task = asyncio.create_task(fire(trigger(100, deadline=time.time() + 30)))
        await polled(fake, 2, OFFSET_FETCH)
        passwords.append("new")  # in Airflow's connection, and at the brokers, which then restart
        valid = "new"
        cut = iter([Cut])
        fake.control(OFFSET_FETCH, lambda *_: next(cut, None))
        await polled(fake, len(fake.requests(OFFSET_FETCH)) + 5, OFFSET_FETCH)
        assert refused, "the old password was tried"
        assert not task.done(), task
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.usefixtures("_hurried")
async def test_many_triggers_keep_their_deadline_while_the_cluster_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A firewall drops packets: each attempt to connect takes a while. Triggers do not wait for each other's."""

    async def hangs(self: Any) -> Any:
        await asyncio.sleep(0.2)  # stands for the 10 s and more of a real attempt
        raise NoBrokerAvailableError("b1:9092", "no answer")

    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", '{"conn_type": "kafka_groups", "host": "b1:9092"}')
    monkeypatch.setattr(KafkaGroupsHook, "aget_conn", hangs)
    begun = time.time()
    deadline = begun + 0.3

    async def one() -> float:
        assert (await fire(trigger(5, deadline=deadline)))["status"] == "timeout"
        return time.time() - begun

    ended = await asyncio.gather(*(one() for _ in range(30)))
    one_after_the_other = 30 * 0.2
    assert max(ended) < one_after_the_other / 2, f"the last of 30 ended after {max(ended):.1f} s"


async def airflow_is_away(self: Any) -> Any:
    raise AirflowUnavailableError("the API server is away")


async def polled(fake: FakeCluster, times: int, api: Api = FIND_COORDINATOR) -> None:
    """Wait until a cluster was asked so many times."""
    await until_async(lambda: len(fake.requests(api)) >= times)


def none_for_old(_: int, version: int, request: Any) -> Any:
    """Answer that one group has no coordinator."""
    keys = request.coordinator_keys
    return answers.find_coordinator(version, dict.fromkeys(keys, NO_COORDINATOR)) if "old" in keys else None


@pytest.mark.usefixtures("_hurried")
async def test_a_trigger_that_begins_asks_the_cluster_that_the_connection_names_by_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others have the old cluster's client open, perhaps for as long as the triggerer runs."""
    async with FakeCluster({1: MODERN}) as old, FakeCluster({1: MODERN}, cluster_id="new") as new:
        old.control(FIND_COORDINATOR, none_for_old)
        lead_to(monkeypatch, old)
        others = [asyncio.create_task(fire(waiting_for("old"))) for _ in range(3)]
        await polled(old, 3)
        lead_to(monkeypatch, new)  # somebody edits the connection; the old cluster still runs
        event = await asyncio.wait_for(fire(waiting_for("a")), 20)
        assert event["status"] == "reached", event
        assert not [sent for sent in old.sent if sent.api == "FindCoordinator" and "a" in sent.keys]
        assert not any(one.done() for one in others), "they wait for what is true of the old one"
        for one in others:
            one.cancel()
        await asyncio.gather(*others, return_exceptions=True)


@pytest.mark.usefixtures("_hurried")
async def test_a_trigger_that_begins_while_airflow_is_away_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others polled no more either, and the time of a stall began again."""
    async with FakeCluster({1: MODERN}) as fake:
        lead_to(monkeypatch, fake)
        running = asyncio.create_task(fire(trigger(100)))
        await polled(fake, 1, OFFSET_FETCH)
        with monkeypatch.context() as patched:
            patched.setattr(KafkaGroupsHook, "aget_conn", airflow_is_away)
            beginning = asyncio.create_task(fire(waiting_for("a")))
            await asyncio.sleep(0.1)
            await polled(fake, len(fake.requests(OFFSET_FETCH)) + 5, OFFSET_FETCH)
            assert not beginning.done()
        assert (await asyncio.wait_for(beginning, 20))["status"] == "reached"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_refused_login_ends_the_wait_for_a_deletion_too(admin: FakeAdmin) -> None:
    refused = AuthenticationFailedError("b2:9092", "SASL authentication was refused")
    admin.missing_brokers = {2: refused}
    with pytest.raises(AuthenticationFailedError):
        await GroupsGone(group_ids=("a",)).check(admin)  # the fake
    admin.missing_brokers = {}
    admin.errors["a"] = refused
    with pytest.raises(AuthenticationFailedError):
        await GroupsGone(group_ids=("a",)).check(admin)  # the fake


async def test_brokers_that_do_not_know_their_cluster_s_id_yet_are_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of Redpanda while it starts: the wait for the groups of an audit record failed, and was not tried again."""
    monkeypatch.setattr(client, "_JUST_NOW", 0.0)
    gone = GroupsGone(group_ids=("a",), kafka_cluster_id="fake")
    async with FakeCluster({1: OLD}, cluster_id="redpanda.initializing") as fake:
        fake.control(
            DESCRIBE_GROUPS, lambda _, of, asked: answers.describe_groups(of, dict.fromkeys(asked.groups, GONE))
        )
        config = ClientConfig.from_librdkafka({"bootstrap.servers": fake.bootstrap}, api_timeout=2.0)
        async with AdminClient(config) as admin:
            found = await gone.check(admin)
            assert not found.reached
            assert "id of their cluster" in found.waiting["a"]
            fake.cluster_id = "fake"
            assert not (await gone.check(admin)).reached
            assert (await gone.check(admin)).reached


@pytest.mark.parametrize("error", [RequestTimeoutError("slow"), DeadlineExceededError("slow"), MissingAnswerError("t")])
async def test_a_watch_that_gets_no_answer_takes_no_client_away_from_others(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """It ended the polls of all sensors of the connection, and the time of a stall began again each time."""
    polls = 0

    async def refuse(**_: object) -> Any:
        nonlocal polls
        polls += 1
        raise error

    async def happen(_seconds: float) -> None:
        if polls == 3:
            raise asyncio.CancelledError

    monkeypatch.setattr(admin, "list_groups", refuse)
    monkeypatch.setattr("airflow_kafka_groups.triggers.events.asyncio.sleep", happen)
    async with clients.shared_client("kafka_groups_default") as shared:
        await shared.run(lambda client: client.cluster_id())
        with pytest.raises(asyncio.CancelledError):
            await anext(GroupsEventTrigger(event="empty").run())
        assert (polls, admin.closed) == (3, 0)
