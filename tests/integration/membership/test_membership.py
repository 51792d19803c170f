"""Membership on real brokers: beside confluent-kafka's consumers, and under Java's eyes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import BrokerError
from airflow_kafka_groups.kafka import (
    AdminClient,
    ClusterClient,
    GroupMember,
    GroupProtocol,
    JoinedMember,
    MemberOptions,
    MemberSession,
)
from airflow_kafka_groups.kafka.models import GroupState, TopicPartition
from airflow_kafka_groups.kafka.protocol import consumer_protocol as cp
from tests.integration.conftest import config_of, each_of
from tests.lab.cluster import KafkaCluster
from tests.lab.errors import LabError
from tests.lab.machine.waiting import until_async
from tests.lab.tools import consumer_groups
from tests.lab.workload.topics import create_topics, quiet
from tests.pages import ROOT

PARTITIONS = 6
MEMBERSHIP_CLUSTERS = ["kafka41", "kafka28", "kafka39"]


kafka = each_of(*MEMBERSHIP_CLUSTERS)


def options(group_id: str, **fields: Any) -> MemberOptions:
    base = {"session_timeout": 6, "rebalance_timeout": 10, "heartbeat_interval": 0.3}
    return MemberOptions(group_id=group_id, **{**base, **fields})


def parts(topic: str, *numbers: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, number) for number in numbers)


class PythonConsumer(GroupMember):
    """Take part in a consumer group of one topic, by one of the consumers' own protocols."""

    def __init__(self, topic: str, strategy: str) -> None:
        self.topic = topic
        self.strategy = strategy
        self.owned: tuple[TopicPartition, ...] = ()
        self.generation = -1
        self.led: list[int] = []

    @property
    def protocol_type(self) -> str:
        return "consumer"

    async def metadata(self) -> Sequence[GroupProtocol]:
        owned = self.owned if self.strategy == "cooperative-sticky" else ()
        subscription = cp.Subscription(topics=(self.topic,), owned=owned, generation=self.generation)
        return [GroupProtocol(self.strategy, cp.encode_subscription(subscription))]

    async def perform_assignment(
        self, leader_id: str, protocol: str, all_member_metadata: Sequence[JoinedMember]
    ) -> Mapping[str, bytes]:
        members = sorted(member.member_id for member in all_member_metadata)
        self.led.append(len(members))
        target = {member_id: self._share(members, i) for i, member_id in enumerate(members)}
        if protocol == "cooperative-sticky":  # what changes hands is given up first, and given away in the next round
            owned = {one.member_id: set(cp.decode_subscription(one.metadata).owned) for one in all_member_metadata}
            taken = {part: member_id for member_id, held in owned.items() for part in held}
            target = {
                member_id: tuple(part for part in given if taken.get(part, member_id) == member_id)
                for member_id, given in target.items()
            }
        return {key: cp.encode_assignment(cp.Assignment(partitions=given)) for key, given in target.items()}

    def _share(self, members: Sequence[str], i: int) -> tuple[TopicPartition, ...]:
        if self.strategy == "roundrobin":
            return parts(self.topic, *range(i, PARTITIONS, len(members)))
        share = PARTITIONS // len(members)
        return parts(self.topic, *range(i * share, (i + 1) * share))

    async def on_join_complete(self, generation: int, member_id: str, protocol: str, assignment: bytes) -> None:
        self.owned, self.generation = cp.decode_assignment(assignment).partitions, generation


@dataclass
class ConfluentConsumer:
    """Poll a confluent-kafka consumer in a thread, and know what it was given."""

    bootstrap: str
    group_id: str
    topic: str
    strategy: str
    stopped: bool = False
    owned: set[int] = field(default_factory=set)

    def run(self) -> None:
        from confluent_kafka import Consumer

        consumer = Consumer(
            quiet(self.bootstrap)
            | {
                "group.id": self.group_id,
                "partition.assignment.strategy": self.strategy,
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 300,
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([self.topic])
        while not self.stopped:
            consumer.poll(0.1)
            self.owned = {part.partition for part in consumer.assignment()}
        consumer.close()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[ConfluentConsumer]:
        task = asyncio.create_task(asyncio.to_thread(self.run))
        try:
            yield self
        finally:
            self.stopped = True
            await task


STRATEGIES = ("range", "roundrobin", "cooperative-sticky")
INTEROP = [
    *itertools.product(STRATEGIES, (True, False), MEMBERSHIP_CLUSTERS),
    *itertools.product(("cooperative-sticky",), (True, False), ("kafka44",)),
]


@pytest.mark.parametrize(("strategy", "leads", "kafka"), INTEROP, indirect=["kafka"])
async def test_a_python_member_shares_a_topic_with_a_confluent_consumer(
    strategy: str, leads: bool, kafka: KafkaCluster, client: ClusterClient
) -> None:
    topic = f"interop-{strategy}-{leads}".lower()
    await asyncio.to_thread(create_topics, kafka.bootstrap, {topic: PARTITIONS})
    other = ConfluentConsumer(kafka.bootstrap, f"g-{topic}", topic, strategy)
    member = PythonConsumer(topic, strategy)
    async with contextlib.AsyncExitStack() as stack:
        if not leads:
            await stack.enter_async_context(other.running())
            await until_async(lambda: len(other.owned) == PARTITIONS)
        session = await stack.enter_async_context(MemberSession(client, member, options(f"g-{topic}")))
        if leads:
            await session.wait_stable(30)
            assert len(member.owned) == PARTITIONS
            await stack.enter_async_context(other.running())

        def mine() -> set[int]:
            return {part.partition for part in member.owned}

        if leads and strategy == "cooperative-sticky":
            # Who has to give something up joins again, as every cooperative consumer does.
            await until_async(lambda: 2 in member.led and len(member.owned) == PARTITIONS // 2)
            session.rejoin("gave up partitions")
        await until_async(lambda: len(mine()) == len(other.owned) == PARTITIONS // 2)
        assert mine() | other.owned == set(range(PARTITIONS))
        assert bool(member.led) == leads
        assert session.membership.is_leader == leads


class Toy(GroupMember):
    """A member that is assigned a number by the leader."""

    def __init__(self) -> None:
        self.number = -1
        self.members = 0

    @property
    def protocol_type(self) -> str:
        return "toy"

    async def metadata(self) -> Sequence[GroupProtocol]:
        return [GroupProtocol("numbers-v1", b"toy")]

    async def perform_assignment(
        self, leader_id: str, protocol: str, all_member_metadata: Sequence[JoinedMember]
    ) -> Mapping[str, bytes]:
        count = len(all_member_metadata)
        return {one.member_id: b"%d %d" % (i, count) for i, one in enumerate(all_member_metadata)}

    async def on_join_complete(self, generation: int, member_id: str, protocol: str, assignment: bytes) -> None:
        self.number, self.members = map(int, assignment.split())


async def test_javas_tool_knows_a_group_of_our_own_protocol_type(kafka: KafkaCluster, client: ClusterClient) -> None:
    toys = [Toy(), Toy()]
    async with contextlib.AsyncExitStack() as stack:
        sessions = [MemberSession(client, toy, options("toys")) for toy in toys]
        for session in sessions:
            await stack.enter_async_context(session)
        await until_async(lambda: all(toy.members == 2 for toy in toys))
        assert {toy.number for toy in toys} == {0, 1}
        async with AdminClient(config_of(kafka)) as admin:
            described = (await admin.describe_consumer_groups(["toys"]))["toys"].unwrap()
        said = await asyncio.to_thread(ask_java, kafka, "--group", "toys", "--state")
    assert (described.state, described.protocol_type, described.protocol) == (GroupState.STABLE, "toy", "numbers-v1")
    assert {one.member_id for one in described.members} == {session.membership.member_id for session in sessions}
    assert "is not a consumer group (toy)" in said, "the tool knows the type, and shows no members of such a group"


def ask_java(kafka: KafkaCluster, *arguments: str) -> str:
    try:
        return consumer_groups(kafka, "--describe", *arguments)
    except LabError as error:
        return str(error)


async def test_javas_tool_shows_a_python_consumer_as_any_other(kafka: KafkaCluster, client: ClusterClient) -> None:
    await asyncio.to_thread(create_topics, kafka.bootstrap, {"interop-java": PARTITIONS})
    member = PythonConsumer("interop-java", "range")
    async with MemberSession(client, member, options("g-interop-java")) as session:
        await session.wait_stable(30)
        state = await asyncio.to_thread(ask_java, kafka, "--group", "g-interop-java", "--state")
        members = await asyncio.to_thread(ask_java, kafka, "--group", "g-interop-java", "--members")
    assert {"range", "Stable"} <= set(state.split()), state
    assert {session.membership.member_id, str(PARTITIONS)} <= set(members.split()), members


async def test_a_group_of_another_protocol_type_is_not_joined_and_not_disturbed(client: ClusterClient) -> None:
    class Other(Toy):
        @property
        def protocol_type(self) -> str:
            return "other"

    async with MemberSession(client, Toy(), options("typed")) as session:
        await session.wait_stable(20)
        with pytest.raises(BrokerError, match="INCONSISTENT_GROUP_PROTOCOL"):
            async with MemberSession(client, Other(), options("typed")) as other:
                await other.wait_stable(20)
        assert session.membership.generation == 1


async def test_a_static_member_comes_back_without_a_round_and_fences_its_double(client: ClusterClient) -> None:
    static = options("static", group_instance_id="i-1")
    first = MemberSession(client, Toy(), static)
    await first.__aenter__()
    await first.wait_stable(20)
    async with MemberSession(client, Toy(), options("static")) as other:
        await other.wait_stable(20)
        await until_async(lambda: other.membership.generation == 2)
        await other.wait_stable(20)
        async with MemberSession(client, Toy(), static) as again:
            await again.wait_stable(20)
            assert again.membership.generation == other.membership.generation == 2
            await until_async(lambda: first.membership.failure is not None)
            with pytest.raises(BrokerError, match="FENCED_INSTANCE_ID"):
                first.check()
    await first.aclose()


async def test_the_page_shows_what_runs(kafka: KafkaCluster, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs/membership.md").read_text()
    code = page.split("<!-- START membership_example -->")[1].split("```python\n")[1].split("```")[0]
    assert len(code.splitlines()) < 60
    names: dict[str, Any] = {}
    exec(compile(code, "docs/membership.md", "exec", dont_inherit=True), names)
    await asyncio.wait_for(names["main"](kafka.bootstrap), 60)
    said = capsys.readouterr().out
    assert "one: " in said
    assert "two: " in said
