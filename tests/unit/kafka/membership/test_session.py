"""A membership from joining to leaving: its callbacks, its coordinator, its rejoins and its ends."""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_groups.change import lease as lease_module
from airflow_kafka_groups.exceptions import (
    BrokerError,
    CallbackFailedError,
    ConfigurationError,
    DeadlineExceededError,
    InvalidAssignmentError,
    MembershipError,
)
from airflow_kafka_groups.kafka import ClusterClient, GroupProtocol, MaintenanceLease, MemberSession, Phase
from airflow_kafka_groups.kafka.membership.session import CoordinatorLink
from airflow_kafka_groups.kafka.protocol.api_versions import (
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    METADATA,
    SYNC_GROUP,
)
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from airflow_kafka_groups.kafka.transport.connection import BrokerConnection, open_connection
from airflow_kafka_groups.kafka.transport.security import SecurityConfig
from tests.fakes import answers
from tests.fakes.cluster import Drop, FakeCluster
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
    member = Recorder()
    async with MemberSession(cluster, member, options) as session:
        await session.wait_stable()
        await session.aclose(leave=quiet == "static")
    assert group.cluster.requests(LEAVE_GROUP) == []
    assert (("leave",) in member.calls) is (quiet == "static"), "it cleans up all the same"


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
    with pytest.raises(BrokerError, match="Read to join"):
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

    cluster.connect = slowly
    async with MemberSession(cluster, Slow(), OPTIONS) as session:
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


async def test_who_leaves_while_what_a_plain_callback_returned_is_awaited_leaves_without_an_error(
    group: ScriptedGroup, cluster: ClusterClient
) -> None:
    waiting = asyncio.Event()

    async def works() -> None:
        waiting.set()
        await asyncio.Event().wait()

    class Decorated(Recorder):
        def on_join_complete(self, *_: object) -> Any:  # as a decorator makes one of a coroutine function
            return works()

    async with MemberSession(cluster, Decorated(), OPTIONS) as session:
        await waiting.wait()
    assert session.membership.failure is None
    assert group.left == ["m1"]


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
        cluster.connect = connect
        async with MemberSession(cluster, Recorder(), OPTIONS) as session:
            await session.wait_stable()

    task = asyncio.create_task(work())
    await until(lambda: bool(group.cluster.requests(LEAVE_GROUP)))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert opened
    assert not [connection for connection in opened if connection.usable]


@pytest.mark.parametrize("wrong", [None, "text", {"m1": None}])
async def test_an_assignment_of_another_type_ends_it_and_is_not_sent(
    group: ScriptedGroup, cluster: ClusterClient, wrong: Any
) -> None:
    class Wrong(Recorder):
        async def perform_assignment(self, *_: Any) -> Any:  # type: ignore[override]
            return wrong

    with pytest.raises(MembershipError):
        async with MemberSession(cluster, Wrong(), OPTIONS) as session:
            await session.wait_stable()
    assert (group.left, group.cluster.requests(SYNC_GROUP)) == (["m1"], [])


@pytest.mark.parametrize("wrong", [None, "text", [("p1", b"")], []])
async def test_metadata_of_another_type_or_of_nothing_is_named_and_not_sent(
    group: ScriptedGroup, cluster: ClusterClient, wrong: Any
) -> None:
    with pytest.raises(ConfigurationError, match=r"metadata\(\).*at least one GroupProtocol"):
        async with MemberSession(cluster, Recorder(wrong), OPTIONS) as session:
            await session.wait_stable()
    assert group.joined_as == []


async def test_metadata_that_changes_while_it_is_asked_for_is_announced_by_another_round(
    group: ScriptedGroup, cluster: ClusterClient
) -> None:
    class Changing(Recorder):
        async def metadata(self) -> list[GroupProtocol]:  # type: ignore[override]  # as a coroutine
            told = word
            if group.generation == 0 and group.ids == 1:
                change()  # by another task of the process, before the request is made
            return [GroupProtocol("p1", told)]

    word = b"before"

    def change() -> None:
        nonlocal word
        word = b"after"
        session.rejoin("the metadata has changed")

    session = MemberSession(cluster, Changing(), OPTIONS)
    async with session, asyncio.timeout(5):
        await until(lambda: session.membership.phase is Phase.STABLE)
        await until(lambda: ("m1", b"after") in group.joined_as)


async def test_a_coordinator_that_hangs_is_the_last_one_to_be_asked_for_its_successor(
    group: ScriptedGroup, cluster: ClusterClient
) -> None:
    """Its answer would be waited for longer than a lease stays confirmed."""
    for _ in range(8):  # brokers are asked in random order
        link = CoordinatorLink(cluster, "g")
        group.cluster.control(FIND_COORDINATOR, lambda *_: None)
        assert await link.find() is ErrorCode.none
        assert link.coordinator is not None
        hanging = link.coordinator
        group.cluster.control(FIND_COORDINATOR, lambda broker_id, *_, at=hanging: Drop if broker_id == at else None)
        group.cluster.moved["g"] = 3 - hanging
        async with asyncio.timeout(5):
            assert await link.find() is ErrorCode.none
        assert link.coordinator == 3 - hanging


def naming(cluster: FakeCluster, ports: dict[int, int]) -> Callable[..., Any]:
    """Make FindCoordinator name the right broker at another address."""
    return lambda _, version, __: answers.find_coordinators(version, {"g": cluster.coordinator("g")}, ports)


def lease_of(group: ScriptedGroup) -> MaintenanceLease:
    return MaintenanceLease(group.config, group_id="g", owner="me", session_timeout=6.0)


async def test_no_lease_is_taken_of_another_cluster_that_has_the_coordinator_s_address(group: ScriptedGroup) -> None:
    """Its address was given away: whoever holds the lease of that cluster may delete at the same time on this one."""
    here = group.cluster
    async with FakeCluster(cluster_id="other") as there:
        elsewhere = ScriptedGroup(there)
        ports = {**here._ports, here.coordinator("g"): there._ports[there.coordinator("g")]}
        here.control(METADATA, lambda _, version, __: here.metadata(version, ports=ports))
        here.control(FIND_COORDINATOR, naming(here, ports))
        lease = lease_of(group)
        taking = asyncio.create_task(lease.acquire(0))
        await until(lambda: bool(elsewhere.joined_as) or len(there.requests(METADATA)) > 2)
        held = lease.held
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
        await lease.aclose()
        assert not held
        assert not elsewhere.joined_as, "it is another cluster's group of the same name"


async def test_a_lease_that_is_held_is_not_confirmed_by_another_cluster(group: ScriptedGroup) -> None:
    async with FakeCluster(cluster_id="other") as there, lease_of(group) as lease:
        elsewhere = ScriptedGroup(there)
        assert lease.held
        port, connect = there._ports[there.coordinator("g")], lease._cluster.connect
        lease._cluster.connect = lambda host, _: connect(host, port)
        group.hold_beats = asyncio.Event()
        session = lease._session
        assert session is not None
        await session._link.aclose()  # the connection is lost
        await until(lambda: bool(elsewhere.beaten) or bool(there.requests(METADATA)))
        assert not there.requests(HEARTBEAT)
        assert not there.requests(JOIN_GROUP)


async def test_it_is_reached_where_a_proxy_rewrites_addresses_in_metadata_only(group: ScriptedGroup) -> None:
    closed = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = closed.sockets[0].getsockname()[1]
    closed.close()
    await closed.wait_closed()
    group.cluster.control(FIND_COORDINATOR, naming(group.cluster, dict.fromkeys(group.cluster._ports, port)))
    async with asyncio.timeout(5), lease_of(group) as lease:
        assert lease.held


async def test_why_a_lease_could_not_be_asked_for_is_in_the_error(
    group: ScriptedGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = group.cluster
    monkeypatch.setattr(lease_module, "JOIN_SECONDS", 1.5)
    async with FakeCluster(cluster_id="other") as there:
        ports = {**here._ports, here.coordinator("g"): there._ports[there.coordinator("g")]}
        here.control(METADATA, lambda _, version, __: here.metadata(version, ports=ports))
        here.control(FIND_COORDINATOR, naming(here, ports))
        with pytest.raises(DeadlineExceededError, match=r"nothing was deleted.*cluster fake leads to cluster other"):
            async with lease_module.deletion_lease(group.config, group_id="g", owner="me", wait_seconds=0):
                raise AssertionError("entered")
