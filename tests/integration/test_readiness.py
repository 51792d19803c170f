"""Members and readiness on real brokers: what DescribeGroups and ConsumerGroupDescribe report of both protocols."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from confluent_kafka import Consumer

from airflow_kafka_groups.kafka import AdminClient
from airflow_kafka_groups.kafka.admin.readiness import MoveStatus, judge_readiness
from airflow_kafka_groups.kafka.models import GroupState
from airflow_kafka_groups.kafka.protocol.api_versions import oldest_release
from tests.integration.conftest import config_of, each_of
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.live import LiveConsumer
from tests.lab.workload.topics import create_topics

TOPIC = "readiness"


RELEASES = {"4.1.0": (4, 1), "4.4.0": (4, 4)}
"""What the API versions of each are read as: a broker does not announce its release."""
kafka = each_of("kafka41", "kafka44")


async def test_members_and_readiness_of_both_protocols(kafka: KafkaCluster) -> None:
    create_topics(kafka.bootstrap, {TOPIC: 2})
    await asyncio.to_thread(commit_offsets, kafka.bootstrap, {"ready-idle": {(TOPIC, 0): 0}})
    with (
        LiveConsumer(kafka.bootstrap, "ready-classic", [TOPIC]),
        LiveConsumer(kafka.bootstrap, "ready-moved", [TOPIC], protocol="consumer"),
    ):
        async with AdminClient(config_of(kafka)) as admin:
            cluster = await admin.describe_cluster()
            described = await admin.describe_consumer_groups(["ready-classic", "ready-moved", "ready-idle", "nobody"])
            release = min(oldest_release(versions) or (0, 0) for versions in cluster.api_versions.values())
    assert release == RELEASES[kafka.version]
    described.raise_for_errors()
    found = {group_id: judge_readiness(group, release) for group_id, group in described.succeeded.items()}
    assert {group_id: one.status for group_id, one in found.items()} == {
        "ready-classic": MoveStatus.READY,
        "ready-moved": MoveStatus.MOVED,
        "ready-idle": MoveStatus.OTHER,
        "nobody": MoveStatus.UNKNOWN,
    }
    assert (found["ready-classic"].assignor, found["ready-classic"].moves_to) == ("range", "range")
    assert found["ready-moved"].assignor in ("uniform", "range")
    (classic,), (moved,) = described["ready-classic"].unwrap().members, described["ready-moved"].unwrap().members
    assert classic.subscribed_topics == moved.subscribed_topics == (TOPIC,)
    assert classic.uses_classic_protocol is True
    assert moved.uses_classic_protocol is False
    assert described["ready-classic"].unwrap().state is GroupState.STABLE


class Adding(RoundRobinPartitionAssignor):  # type: ignore[misc]  # aiokafka is not typed
    """An assignor with a name of its own that no broker knows."""

    name = "of-a-client"
    user_data = b""

    @classmethod
    def assign(cls, *given: Any) -> Mapping[str, Any]:
        assigned = super().assign(*given)
        return {
            member: ConsumerProtocolMemberAssignment(cls.version, each.assignment, cls.user_data)
            for member, each in assigned.items()
        }


class AddingData(Adding):
    """One that adds user data to assignments, as Sarama's sticky strategy does."""

    user_data = b"generation 1"


def joins(bootstrap: str, group_id: str, topic: str) -> bool:
    """Return whether a consumer of the new protocol can join a group; it dies where the broker refuses."""
    properties = {"bootstrap.servers": bootstrap, "group.id": group_id, "group.protocol": "consumer"}
    consumer, assigned = Consumer(properties, logger=None), []
    consumer.subscribe([topic], on_assign=lambda _, partitions: assigned.extend(partitions))
    deadline = time.monotonic() + 30
    try:
        while not assigned and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None and (error := message.error()) is not None and error.fatal():
                return False
        return bool(assigned)
    finally:
        consumer.close()


@pytest.mark.parametrize(
    ("assignor", "status"), [(Adding, MoveStatus.READY), (AddingData, MoveStatus.BLOCKED)], ids=["name", "data"]
)
async def test_an_assignor_is_judged_as_brokers_do(
    kafka44: KafkaCluster, assignor: type[Adding], status: MoveStatus
) -> None:
    """The assignor's name decided: the consumer that then joined died, or a group that brokers take was blocked."""
    group_id = topic = f"ready-{assignor.__name__}"
    create_topics(kafka44.bootstrap, {topic: 2})
    options: dict[str, Any] = {"bootstrap_servers": kafka44.bootstrap, "group_id": group_id}
    classic = AIOKafkaConsumer(topic, partition_assignment_strategy=[assignor], heartbeat_interval_ms=500, **options)
    await classic.start()
    reading = asyncio.create_task(classic.getone())  # it joins again only while it is asked for records
    try:
        async with AdminClient(config_of(kafka44)) as admin:
            described = await admin.describe_consumer_groups([group_id])
        found = judge_readiness(described[group_id].unwrap(), (4, 4))
        assert (found.status, found.assignor) == (status, assignor.name)
        assert await asyncio.to_thread(joins, kafka44.bootstrap, group_id, topic) is (status is MoveStatus.READY)
    finally:
        reading.cancel()
        await classic.stop()
