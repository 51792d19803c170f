"""Members and readiness on real brokers: what DescribeGroups and ConsumerGroupDescribe report of both protocols."""

from __future__ import annotations

import asyncio

from airflow_kafka_groups.admin import AdminClient
from airflow_kafka_groups.admin.readiness import MoveStatus, judge_readiness
from airflow_kafka_groups.models import GroupState
from airflow_kafka_groups.protocol.releases import oldest_release
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
