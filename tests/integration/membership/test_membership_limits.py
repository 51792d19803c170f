"""What a broker, or this package, does not let pass: a clear error, a group left cleanly, and others undisturbed."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import BrokerError, InvalidAssignmentError, KafkaGroupsError
from airflow_kafka_groups.kafka import (
    AdminClient,
    ClusterClient,
    GroupProtocol,
    JoinedMember,
    MemberOptions,
    MemberSession,
    Phase,
)
from tests.integration.conftest import config_of, each_of
from tests.integration.membership.test_membership import Toy, options
from tests.lab.cluster import KafkaCluster
from tests.lab.machine.waiting import until_async

kafka = each_of("kafka41", "kafka28", "kafka44")


async def members_of(kafka: KafkaCluster, group_id: str) -> set[str]:
    async with AdminClient(config_of(kafka)) as admin:
        described = (await admin.describe_consumer_groups([group_id]))[group_id].unwrap()
    return {member.member_id for member in described.members}


async def fails(client: ClusterClient, member: Toy, given: MemberOptions) -> KafkaGroupsError:
    """Join with a member that cannot stay; give what ended it."""
    with pytest.raises(KafkaGroupsError) as caught:
        await stay(MemberSession(client, member, given))
    return caught.value


async def stay(session: MemberSession) -> None:
    """Stay a member until an error ends the membership."""
    async with session:
        while True:
            await session.wait_change(60)


class Wordy(Toy):
    async def metadata(self) -> Sequence[GroupProtocol]:
        return [GroupProtocol("numbers-v1", b"x" * 2_000_000)]


async def test_metadata_that_the_broker_cannot_store_is_said_to_be_too_large(
    kafka: KafkaCluster, client: ClusterClient
) -> None:
    error = await fails(client, Wordy(), options("limits-wordy"))
    assert isinstance(error, BrokerError)
    assert "may be too large for a record of __consumer_offsets" in str(error)
    assert await members_of(kafka, "limits-wordy") == set()


@pytest.mark.parametrize("what", ["lacks", "unknown"])
async def test_a_leader_that_assigns_wrongly_leaves_and_the_others_go_on(
    what: str, kafka: KafkaCluster, client: ClusterClient
) -> None:
    class Wrong(Toy):
        async def perform_assignment(
            self, leader_id: str, protocol: str, all_member_metadata: Sequence[JoinedMember]
        ) -> Mapping[str, bytes]:
            made = dict(await super().perform_assignment(leader_id, protocol, all_member_metadata))
            if len(made) > 1:  # right while it is alone, so that it leads when another comes
                return {leader_id: made[leader_id]} if what == "lacks" else {**made, "nobody": b"0 1"}
            return made

    given = options(f"limits-{what}")
    wrong, other = MemberSession(client, Wrong(), given), Toy()
    staying = asyncio.create_task(stay(wrong))
    await until_async(lambda: wrong.membership.phase is Phase.STABLE)
    async with MemberSession(client, other, given) as session:
        with pytest.raises(InvalidAssignmentError, match=what):
            await staying
        await until_async(lambda: other.members == 1 and session.membership.is_leader)
        assert await members_of(kafka, given.group_id) == {session.membership.member_id}


async def test_fifty_at_once_become_one_group_and_leave_nothing(kafka: KafkaCluster, client: ClusterClient) -> None:
    toys = [Toy() for _ in range(50)]
    given = options("limits-fifty", session_timeout=20, rebalance_timeout=30)
    async with contextlib.AsyncExitStack() as stack:
        sessions = [MemberSession(client, toy, given) for toy in toys]
        await asyncio.gather(*(stack.enter_async_context(session) for session in sessions))
        await until_async(lambda: all(toy.members == 50 for toy in toys), 90)
        assert {toy.number for toy in toys} == set(range(50))
    assert await members_of(kafka, "limits-fifty") == set()


async def test_a_member_that_stalls_does_not_hold_the_others_up_and_finds_back(
    kafka: KafkaCluster, client: ClusterClient
) -> None:
    class Stalling(Toy):
        def __init__(self) -> None:
            super().__init__()
            self.go = asyncio.Event()
            self.prepared: list[tuple[int, str]] = []

        async def on_join_prepare(self, generation: int, member_id: str) -> None:
            self.prepared.append((generation, member_id))
            if len(self.prepared) == 2:
                await self.go.wait()

    stalling, other = Stalling(), Toy()
    given = options("limits-stall", rebalance_timeout=6)
    async with MemberSession(client, stalling, given) as slow:
        await slow.wait_stable(30)
        first = (slow.membership.generation, slow.membership.member_id)
        async with MemberSession(client, other, given):
            await until_async(lambda: other.members == 1, 60)  # the group went on without it
            stalling.go.set()
            await until_async(lambda: other.members == stalling.members == 2, 60)
        assert stalling.prepared == [(-1, ""), first], "once for each round, with the state of the one before"
        assert slow.membership.member_id != first[1], "it came back as a new member"


async def test_a_full_group_takes_no_more_and_keeps_those_it_has() -> None:
    with KafkaCluster(version="4.1.0", brokers=1, config={"group.max.size": 2}) as kafka:
        async with asyncio.timeout(90), ClusterClient(config_of(kafka)) as client:
            given: Any = options("limits-full")
            toys = [Toy(), Toy()]
            async with MemberSession(client, toys[0], given), MemberSession(client, toys[1], given) as second:
                await until_async(lambda: all(toy.members == 2 for toy in toys))
                generation = second.membership.generation
                error = await fails(client, Toy(), given)
                assert "GROUP_MAX_SIZE_REACHED" in str(error)
                assert "group.max.size" in str(error)
                assert second.membership.generation == generation
