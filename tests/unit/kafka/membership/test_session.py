"""A session does what its state machine says, over sockets: callbacks, heartbeats beside them, and a clean end."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest

from airflow_kafka_groups.exceptions import (
    BrokerError,
    CallbackFailedError,
    ConfigurationError,
    InvalidAssignmentError,
    MembershipError,
)
from airflow_kafka_groups.kafka.membership import ClusterClient, GroupProtocol, MemberSession, Phase
from airflow_kafka_groups.kafka.protocol.api_versions import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from airflow_kafka_groups.kafka.transport.base import BrokerConnection
from airflow_kafka_groups.kafka.transport.connection import open_connection
from airflow_kafka_groups.kafka.transport.security import SecurityConfig
from tests.unit.kafka.membership.group import OPTIONS, Recorder, ScriptedGroup, until

FIRST = [("prepare", -1, ""), ("assign", "m1", "p1"), ("complete", 1, "m1", "p1", b"for m1")]


async def test_the_callbacks_come_in_order_and_the_group_is_left(group: ScriptedGroup, cluster: ClusterClient) -> None:
    member = Recorder()
    async with MemberSession(cluster, member, OPTIONS) as session:
        await session.wait_stable()
        assert session.membership.is_leader
    assert member.calls == [*FIRST, ("leave",)]
    assert group.left == ["m1"]
    with pytest.raises(MembershipError, match="the session is closed"):
        await session.wait_change()


async def test_heartbeats_go_on_while_a_coroutine_runs(group: ScriptedGroup, cluster: ClusterClient) -> None:
    class Slow(Recorder):
        async def on_join_complete(self, generation: int, member_id: str, protocol: str, assignment: bytes) -> None:
            await group.beats_seen(5)

    async with MemberSession(cluster, Slow(), OPTIONS) as session:
        await session.wait_stable()
    assert group.beaten >= 5


async def test_heartbeats_go_on_while_a_plain_function_blocks(group: ScriptedGroup, cluster: ClusterClient) -> None:
    go = threading.Event()

    class Blocking(Recorder):
        def on_join_complete(  # type: ignore[override]  # plain on purpose
            self, generation: int, member_id: str, protocol: str, assignment: bytes
        ) -> None:
            assert go.wait(10)

    async with MemberSession(cluster, Blocking(), OPTIONS) as session:
        await group.beats_seen(5)
        assert session.membership.phase.value == "completing"
        go.set()
        await session.wait_stable()


async def test_a_completion_that_raises_is_called_again_with_the_same_state(
    group: ScriptedGroup, cluster: ClusterClient
) -> None:
    member = Recorder()
    member.completions.extend([OSError("disk"), OSError("disk"), None])
    async with MemberSession(cluster, member, OPTIONS) as session:
        await session.wait_stable()
    assert [call for call in member.calls if call[0] == "complete"] == [FIRST[2]] * 3
    assert len(group.cluster.requests(SYNC_GROUP)) == 1


async def test_a_completion_that_never_works_ends_it_with_its_own_error_and_leaves(
    group: ScriptedGroup, cluster: ClusterClient
) -> None:
    member = Recorder()
    member.completions.extend([OSError("disk")] * 9)
    with pytest.raises(CallbackFailedError, match="failed 3 times") as caught:
        async with MemberSession(cluster, member, replace(OPTIONS, callback_tries=3)) as session:
            await session.wait_stable()
    assert isinstance(caught.value.__cause__, OSError)
    assert group.left == ["m1"]


@pytest.mark.parametrize(
    ("skip", "extra", "words"),
    [
        ({"m1"}, {}, "lacks m1;"),
        (set(), {"who": b""}, "has unknown members who;"),
        ({"o"}, {"w": b""}, "lacks o and has unknown members w;"),
    ],
)
async def test_a_wrong_assignment_is_named_not_sent_and_the_group_is_left(
    skip: set[str], extra: dict[str, bytes], words: str, group: ScriptedGroup, cluster: ClusterClient
) -> None:
    group.others = {"o": b""}
    member = Recorder()
    member.skip, member.extra = skip, extra
    with pytest.raises(InvalidAssignmentError, match=words):
        async with MemberSession(cluster, member, OPTIONS) as session:
            await session.wait_stable()
    assert group.cluster.requests(SYNC_GROUP) == []
    assert group.left == ["m1"]


async def test_no_protocols_is_an_error_before_anything_is_sent(group: ScriptedGroup, cluster: ClusterClient) -> None:
    with pytest.raises(ConfigurationError, match="at least one protocol"):
        async with MemberSession(cluster, Recorder([]), OPTIONS) as session:
            await session.wait_stable()
    assert group.cluster.requests(JOIN_GROUP) == []


async def test_who_is_cancelled_behind_a_join_leaves_by_another_connection(
    group: ScriptedGroup, cluster: ClusterClient
) -> None:
    group.hold_joins = asyncio.Event()
    async with MemberSession(cluster, Recorder(), OPTIONS):
        await until(lambda: len(group.cluster.requests(JOIN_GROUP)) == 2)
    assert group.left == ["m1"]


async def test_cancelling_the_task_leaves_the_group(group: ScriptedGroup, cluster: ClusterClient) -> None:
    stable = asyncio.Event()

    async def work() -> None:
        async with MemberSession(cluster, Recorder(), OPTIONS) as session:
            await session.wait_stable()
            stable.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await stable.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert group.left == ["m1"]


@pytest.mark.parametrize("quiet", ["static", "asked"])
async def test_who_may_come_back_does_not_say_that_it_goes(
    quiet: str, group: ScriptedGroup, cluster: ClusterClient
) -> None:
    options = replace(OPTIONS, group_instance_id="i1") if quiet == "static" else OPTIONS
    async with MemberSession(cluster, Recorder(), options) as session:
        await session.wait_stable()
        await session.aclose(leave=quiet == "static")
    assert group.cluster.requests(LEAVE_GROUP) == []


async def test_a_coordinator_that_moves_is_followed_without_a_new_round(
    group: ScriptedGroup, cluster: ClusterClient
) -> None:
    member = Recorder()
    first = group.cluster.coordinator("g")
    async with MemberSession(cluster, member, OPTIONS) as session:
        await session.wait_stable()
        group.cluster.moved["g"] = 3 - first
        await until(lambda: any(sent.broker_id != first for sent in group.cluster.requests(HEARTBEAT)))
        await group.beats_seen(2)
        assert session.membership.synced is not None
    assert member.calls == [*FIRST, ("leave",)]


async def test_who_was_thrown_out_is_told_by_minus_one_and_joins_anew(
    group: ScriptedGroup, cluster: ClusterClient
) -> None:
    member = Recorder()
    async with MemberSession(cluster, member, OPTIONS) as session:
        await session.wait_stable()
        group.beats.append(ErrorCode.unknown_member_id)
        while session.membership.generation != 2 or session.membership.phase.value != "stable":
            await session.wait_change()
    assert member.calls[3:] == [
        ("prepare", -1, ""),
        ("assign", "m2", "p1"),
        ("complete", 2, "m2", "p1", b"for m2"),
        ("leave",),
    ]


async def test_a_rebalance_is_told_by_the_old_generation(group: ScriptedGroup, cluster: ClusterClient) -> None:
    member = Recorder()
    async with MemberSession(cluster, member, OPTIONS) as session:
        await session.wait_stable()
        group.beats.append(ErrorCode.rebalance_in_progress)
        while session.membership.generation != 2:
            await session.wait_change()
        await session.wait_stable()
        session.rejoin("new metadata")
        while session.membership.generation != 3:
            await session.wait_change()
    assert [call for call in member.calls if call[0] == "prepare"][1:] == [("prepare", 1, "m1"), ("prepare", 2, "m1")]


async def test_what_ends_a_membership_is_said_in_words(group: ScriptedGroup, cluster: ClusterClient) -> None:
    group.joins.append(ErrorCode.group_authorization_failed)
    with pytest.raises(BrokerError, match="requires READ on it"):
        async with MemberSession(cluster, Recorder(), OPTIONS) as session:
            await session.wait_stable()


async def test_who_closes_while_a_failed_membership_is_leaving_lets_it_leave_once(
    group: ScriptedGroup, cluster: ClusterClient
) -> None:
    go = asyncio.Event()

    class Slow(Recorder):
        async def on_leave_prepare(self) -> None:
            await super().on_leave_prepare()
            await go.wait()

    member = Slow()
    member.extra = {"invented": b""}
    session = MemberSession(cluster, member, OPTIONS)
    await session.__aenter__()
    await until(lambda: ("leave",) in member.calls)
    closing = asyncio.create_task(session.aclose())
    await asyncio.sleep(0)
    go.set()
    await closing
    assert member.calls.count(("leave",)) == 1
    assert group.left == ["m1"]


async def test_a_member_that_cannot_clean_up_leaves_all_the_same(group: ScriptedGroup, cluster: ClusterClient) -> None:
    class Broken(Recorder):
        async def on_leave_prepare(self) -> None:
            raise OSError("disk")

    async with MemberSession(cluster, Broken(), OPTIONS) as session:
        await session.wait_stable()
    assert group.left == ["m1"]


async def test_a_heartbeat_that_waited_for_a_connection_is_not_sent_behind_a_join(
    group: ScriptedGroup, cluster: ClusterClient
) -> None:
    prepare, connect, opening = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slowly(host: str, port: int) -> BrokerConnection:
        if group.generation:
            opening.set()
            await connect.wait()
        return await open_connection(host, port, security=SecurityConfig(), client_id="t", timeout=5)

    class Slow(Recorder):
        async def on_join_prepare(self, generation: int, member_id: str) -> None:
            if generation == 1:
                await prepare.wait()

    async with MemberSession(cluster, Slow(), OPTIONS, connect=slowly) as session:
        await session.wait_stable()
        session.rejoin("because")
        group.beats.append(ErrorCode.not_coordinator)  # the coordinator moves, so there is a connection to open
        group.cluster.moved["g"] = 3 - group.cluster.coordinator("g")
        await opening.wait()
        beaten = group.beaten
        prepare.set()
        await until(lambda: session.membership.phase is Phase.JOINING)
        connect.set()
        await until(lambda: group.generation == 2)
        assert group.beaten == beaten


async def test_metadata_of_a_member_that_was_thrown_out_meanwhile_is_asked_for_again(
    group: ScriptedGroup, cluster: ClusterClient
) -> None:
    class Slow(Recorder):
        async def metadata(self) -> list[GroupProtocol]:  # type: ignore[override]  # as a coroutine
            before = session.membership.member_id
            if group.generation == 1:
                group.beats.append(ErrorCode.unknown_member_id)
                await until(lambda: session.membership.member_id == "")
                group.generation = 7
            return [GroupProtocol("p1", before.encode())]

    member = Slow()
    session = MemberSession(cluster, member, OPTIONS)
    async with session:
        await session.wait_stable()
        session.rejoin("because")
        await until(lambda: session.membership.generation == 8)
        await session.wait_stable()
    assert group.joined_as == [("", b""), ("m1", b"m1"), ("", b""), ("m2", b"m2")]


async def test_a_failure_nobody_waited_for_is_raised_at_the_end(group: ScriptedGroup, cluster: ClusterClient) -> None:
    session = MemberSession(cluster, Recorder(), OPTIONS)
    await session.__aenter__()
    await session.wait_stable()
    group.beats.append(ErrorCode.fenced_instance_id)
    await until(lambda: session.membership.failure is not None)
    with pytest.raises(BrokerError, match="FENCED_INSTANCE_ID"):
        await session.__aexit__(None, None, None)
