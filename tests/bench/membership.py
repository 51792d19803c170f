"""Join time beside confluent-kafka's consumer, and 200 members in one process: ``python -m tests.bench.membership``.

Both clients join the same group of the same broker by turns, with the same protocol, metadata and timeouts, from no
connection at all to the assignment. Writes build/bench/membership.json and prints a table.
"""

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_kafka_groups.kafka import (
    ClientConfig,
    ClusterClient,
    GroupMember,
    GroupProtocol,
    JoinedMember,
    MemberOptions,
    MemberSession,
)
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.kafka.protocol import consumer_protocol as cp
from tests.bench.process import cpu_seconds, peak_mb
from tests.bench.stats import Spread
from tests.bench.toolchains import REPOSITORY
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.topics import create_topics, quiet

FILE = REPOSITORY / "build" / "bench" / "membership.json"
VERSION = "4.1.0"
TOPIC, PARTITIONS, GROUP = "join", 6, "join-bench"
ROUNDS, WARM_UP = 25, 3
MEMBERS = 200
WINDOWS, WINDOW_SECONDS = 4, 10.0
SESSION_TIMEOUT, HEARTBEAT = 45.0, 3.0  # librdkafka's own defaults


class Consumer(GroupMember):
    """Join as a plain consumer of one topic does."""

    def __init__(self) -> None:
        self.assigned: tuple[TopicPartition, ...] = ()

    @property
    def protocol_type(self) -> str:
        return "consumer"

    async def metadata(self) -> Sequence[GroupProtocol]:
        return [GroupProtocol("range", cp.encode_subscription(cp.Subscription(topics=(TOPIC,))))]

    async def perform_assignment(
        self, leader_id: str, protocol: str, all_member_metadata: Sequence[JoinedMember]
    ) -> Mapping[str, bytes]:
        shares = {one.member_id: [] for one in all_member_metadata}  # type: dict[str, list[TopicPartition]]
        for number in range(PARTITIONS):
            shares[sorted(shares)[number % len(shares)]].append(TopicPartition(TOPIC, number))
        return {key: cp.encode_assignment(cp.Assignment(partitions=tuple(given))) for key, given in shares.items()}

    async def on_join_complete(self, generation: int, member_id: str, protocol: str, assignment: bytes) -> None:
        self.assigned = cp.decode_assignment(assignment).partitions

    async def on_join_prepare(self, generation: int, member_id: str) -> None:
        return None

    async def on_leave_prepare(self) -> None:
        return None


def options(group_id: str) -> MemberOptions:
    """Return the timeouts that both clients use."""
    return MemberOptions(
        group_id=group_id, session_timeout=SESSION_TIMEOUT, rebalance_timeout=300, heartbeat_interval=HEARTBEAT
    )


async def join_ours(bootstrap: str) -> float:
    """Join, and give the seconds until the assignment was there; leave afterwards."""
    member = Consumer()
    began = time.perf_counter()
    async with (
        ClusterClient(ClientConfig.from_librdkafka({"bootstrap.servers": bootstrap})) as cluster,
        MemberSession(cluster, member, options(GROUP)) as session,
    ):
        await session.wait_stable(60)
        seconds = time.perf_counter() - began
        assert len(member.assigned) == PARTITIONS
    return seconds


def join_confluent(bootstrap: str) -> float:
    """Measure the same with confluent-kafka's consumer."""
    from confluent_kafka import Consumer as ConfluentConsumer

    assigned: list[tuple[float, int]] = []
    began = time.perf_counter()
    consumer = ConfluentConsumer(
        quiet(bootstrap)
        | {
            "group.id": GROUP,
            "partition.assignment.strategy": "range",
            "session.timeout.ms": round(SESSION_TIMEOUT * 1000),
            "heartbeat.interval.ms": round(HEARTBEAT * 1000),
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC], on_assign=lambda _, parts: assigned.append((time.perf_counter(), len(parts))))
    while not assigned:
        consumer.poll(1.0)
        assert time.perf_counter() - began < 60
    (seen, count), *_ = assigned
    consumer.close()
    assert count == PARTITIONS
    return seen - began


def measure_joins(bootstrap: str) -> dict[str, Spread]:
    """Join by turns; the first rounds are not counted."""
    seconds: dict[str, list[float]] = {"ours": [], "confluent-kafka": []}
    for number in range(WARM_UP + ROUNDS):
        by_turns = [("ours", asyncio.run(join_ours(bootstrap))), ("confluent-kafka", join_confluent(bootstrap))]
        if number >= WARM_UP:
            for name, taken in by_turns:
                seconds[name].append(taken)
    return {name: Spread(tuple(taken)) for name, taken in seconds.items()}


async def measure_members(bootstrap: str) -> dict[str, Any]:
    """Run many members of one group, and measure the processor time of this process in equal stretches of time."""
    async with (
        ClusterClient(ClientConfig.from_librdkafka({"bootstrap.servers": bootstrap})) as cluster,
        contextlib.AsyncExitStack() as stack,
    ):
        began = time.perf_counter()
        sessions = [MemberSession(cluster, Consumer(), options("many-members")) for _ in range(MEMBERS)]
        for session in sessions:
            await stack.enter_async_context(session)
        async with asyncio.timeout(180):
            while not all_in_one_generation(sessions):  # noqa: ASYNC110  # state of many sessions
                await asyncio.sleep(0.1)
        joined = time.perf_counter() - began
        shares = []
        for _ in range(WINDOWS):
            before = cpu_seconds(os.getpid()) or 0.0
            await asyncio.sleep(WINDOW_SECONDS)
            shares.append(((cpu_seconds(os.getpid()) or 0.0) - before) / WINDOW_SECONDS)
        generations = {session.membership.generation for session in sessions}
        assert len(generations) == 1, "no heartbeat came too late"
    return {
        "members": MEMBERS,
        "heartbeat_interval_seconds": HEARTBEAT,
        "joined_seconds": round(joined, 2),
        "cpu_share_in_windows": [round(share, 4) for share in shares],
        "window_seconds": WINDOW_SECONDS,
        "peak_mb": peak_mb(os.getpid()),
    }


def all_in_one_generation(sessions: Sequence[MemberSession]) -> bool:
    """Return whether every member is stable, and in the same generation."""
    phases = {session.membership.phase.value for session in sessions}
    return phases == {"stable"} and len({session.membership.generation for session in sessions}) == 1


def main() -> int:
    """Measure, write, print; give the exit code: 1 when joining is more than a fifth slower than the other client."""
    print(f"Starting Kafka {VERSION} …", flush=True)
    load = os.getloadavg()[0]
    with KafkaCluster(version=VERSION, brokers=1, full_jit=True) as kafka:
        create_topics(kafka.bootstrap, {TOPIC: PARTITIONS})
        joins = measure_joins(kafka.bootstrap)
        many = asyncio.run(measure_members(kafka.bootstrap))
    ratio = joins["ours"].median / joins["confluent-kafka"].median
    made = {
        "date": time.strftime("%Y-%m-%d"),
        "kafka": VERSION,
        "processors": os.cpu_count(),
        "load": [round(load, 1), round(os.getloadavg()[0], 1)],
        "join_seconds": {name: spread.as_json() for name, spread in joins.items()},
        "join_ratio": round(ratio, 3),
        "many_members": many,
    }
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps(made, indent=1) + "\n")
    for name, spread in joins.items():
        print(f"  join, {name:16} {spread.median * 1000:7.1f} ms (IQR {spread.iqr * 1000:.1f}, {ROUNDS} rounds)")
    print(f"  ours / confluent-kafka   {ratio:.2f}")
    shares = ", ".join(f"{share:.1%}" for share in many["cpu_share_in_windows"])
    print(
        f"  {MEMBERS} members joined in {many['joined_seconds']} s; then {shares} of a processor; {many['peak_mb']} MB"
    )
    return 1 if ratio > 1.2 else 0


if __name__ == "__main__":
    sys.exit(main())
