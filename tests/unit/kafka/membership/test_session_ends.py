"""However a session ends, nobody waits on for it, its calls do not overlap, and no connection stays open."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import CallbackFailedError, ConfigurationError
from airflow_kafka_groups.kafka.membership import ClusterClient, GroupProtocol, MemberSession
from airflow_kafka_groups.kafka.protocol.api_versions import LEAVE_GROUP, SYNC_GROUP
from airflow_kafka_groups.kafka.transport.base import BrokerConnection
from airflow_kafka_groups.kafka.transport.connection import open_connection
from airflow_kafka_groups.kafka.transport.security import SecurityConfig
from tests.unit.kafka.membership.group import OPTIONS, Recorder, ScriptedGroup, until


async def test_a_callback_that_waits_for_a_task_it_cancelled_ends_the_membership_in_words(
    group: ScriptedGroup, cluster: ClusterClient
) -> None:
    class Stopping(Recorder):
        async def on_join_prepare(self, generation: int, member_id: str) -> None:
            if generation == 1:  # stop the work on what was assigned: who forgets to expect the cancellation
                work = asyncio.create_task(asyncio.Event().wait())
                await asyncio.sleep(0)
                work.cancel()
                await work

    async def work() -> None:
        async with MemberSession(cluster, Stopping(), OPTIONS) as session, asyncio.timeout(5):
            await session.wait_stable()
            session.rejoin("because")
            while True:
                await session.wait_change()

    with pytest.raises(CallbackFailedError, match=r"on_join_prepare\(\) raised CancelledError"):
        await work()
    assert group.left == ["m1"]


async def test_a_plain_callback_that_exhausts_an_iterator_ends_the_membership(
    group: ScriptedGroup, cluster: ClusterClient
) -> None:
    class Exhausted(Recorder):
        def metadata(self) -> list[GroupProtocol]:
            return [next(iter([]))]

    async def work() -> None:
        async with MemberSession(cluster, Exhausted(), OPTIONS) as session:
            await session.wait_stable(5)

    with pytest.raises(CallbackFailedError, match=r"metadata\(\) raised StopIteration"):
        await work()


async def test_who_leaves_while_a_plain_callback_runs_waits_for_it_before_the_next_one(
    group: ScriptedGroup, cluster: ClusterClient
) -> None:
    running, overlaps, go = threading.Event(), [], threading.Event()

    class Plain(Recorder):
        def on_join_complete(  # type: ignore[override]  # plain on purpose
            self, generation: int, member_id: str, protocol: str, assignment: bytes
        ) -> None:
            running.set()
            go.wait(10)
            time.sleep(0.05)
            running.clear()

        def on_leave_prepare(self) -> None:  # type: ignore[override]  # plain on purpose
            overlaps.append(running.is_set())

    async with MemberSession(cluster, Plain(), OPTIONS):
        await until(running.is_set)
        asyncio.get_running_loop().call_later(0.05, go.set)
    assert overlaps == [False]
    assert group.left == ["m1"]


async def test_who_is_cancelled_while_leaving_leaves_no_connection_open(
    group: ScriptedGroup, cluster: ClusterClient
) -> None:
    opened: list[BrokerConnection] = []

    async def connect(host: str, port: int) -> BrokerConnection:
        connection = await open_connection(host, port, security=SecurityConfig(), client_id="t", timeout=5)
        opened.append(connection)
        return connection

    async def silent(broker_id: int, version: int, request: object) -> None:
        await asyncio.Event().wait()

    group.cluster.control(LEAVE_GROUP, silent)

    async def work() -> None:
        async with MemberSession(cluster, Recorder(), OPTIONS, connect=connect) as session:
            await session.wait_stable()

    task = asyncio.create_task(work())
    await until(lambda: bool(group.cluster.requests(LEAVE_GROUP)))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert opened
    assert not [connection for connection in opened if connection.usable]


@pytest.mark.parametrize("wrong", [None, "text", [("m1", b"")], {"m1": "text"}, {"m1": None}])
async def test_an_assignment_of_another_type_is_named_and_not_sent(
    group: ScriptedGroup, cluster: ClusterClient, wrong: Any
) -> None:
    class Wrong(Recorder):
        async def perform_assignment(self, *_: Any) -> Any:  # type: ignore[override]
            return wrong

    with pytest.raises(ConfigurationError, match=r"perform_assignment\(\).*bytes"):
        async with MemberSession(cluster, Wrong(), OPTIONS) as session:
            await session.wait_stable()
    assert (group.left, group.cluster.requests(SYNC_GROUP)) == (["m1"], [])


@pytest.mark.parametrize("wrong", [None, "text", [("p1", b"")], 5])
async def test_metadata_of_another_type_is_named_and_not_sent(
    group: ScriptedGroup, cluster: ClusterClient, wrong: Any
) -> None:
    with pytest.raises(ConfigurationError, match=r"metadata\(\).*GroupProtocol"):
        async with MemberSession(cluster, Recorder(wrong), OPTIONS) as session:
            await session.wait_stable()
    assert group.joined_as == []


async def test_a_static_member_is_told_before_it_goes_and_does_not_leave(
    group: ScriptedGroup, cluster: ClusterClient
) -> None:
    member = Recorder()
    async with MemberSession(cluster, member, replace(OPTIONS, group_instance_id="i1")) as session:
        await session.wait_stable()
    assert member.calls[-1] == ("leave",)
    assert group.left == []
