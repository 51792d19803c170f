"""A leader that dies right after it confirmed a deletion: before Kafka 4.0 the groups come back, with their offsets.

Followers are stopped, so that they cannot have what the leader writes. Kafka up to 3.9 answers a DeleteGroups request
all the same, since it waits for no replica; Kafka 4.0 and later answer when the replicas have it.
"""

import asyncio
import os
import signal
from collections import defaultdict

import pytest

from airflow_kafka_groups.exceptions import OutcomeUnknownError
from airflow_kafka_groups.kafka import AdminClient, ClientConfig
from airflow_kafka_groups.kafka.models import GroupType, OffsetAndMetadata, TopicPartition
from tests.integration.conftest import config_of
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.topics import create_topics

GROUPS = [f"lost-{number:02d}" for number in range(60)]
SAVED = {TopicPartition("lost", 0): OffsetAndMetadata(0)}


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("version", "confirms"), [pytest.param("3.9.2", True, id="3.9"), pytest.param("4.4.0", False, id="4.4")]
)
async def test_a_deletion_can_be_lost_with_its_leader_where_brokers_wait_for_no_replica(
    version: str, confirms: bool
) -> None:
    with KafkaCluster(version=version, brokers=3) as cluster:
        await asyncio.to_thread(create_topics, cluster.bootstrap, {"lost": 1})
        leader, *followers = cluster.brokers
        async with AdminClient(config_of(cluster)) as admin:
            (await admin.alter_consumer_group_offsets(dict.fromkeys(GROUPS, SAVED))).raise_for_errors()
            led: defaultdict[int, list[str]] = defaultdict(list)
            for group_id, found in (await admin.find_coordinators(GROUPS)).items():
                led[found.unwrap().broker_id].append(group_id)
        config = ClientConfig.from_librdkafka({"bootstrap.servers": cluster.address(leader)}, api_timeout=4)
        async with AdminClient(config) as admin:
            await admin.describe_consumer_groups(led[leader])  # connects, and asks who leads what
            pids = [cluster.pid(node_id) for node_id in followers]
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            try:
                answers = await admin.delete_consumer_groups(led[leader], types=list(GroupType))
            finally:
                cluster.kill(leader)
                for pid in pids:
                    os.kill(pid, signal.SIGCONT)
        confirmed = {group_id for group_id, answer in answers.items() if answer.error is None}
        assert confirmed == (set(led[leader]) if confirms else set())
        assert all(confirms or isinstance(answer.error, OutcomeUnknownError) for answer in answers.values())
        if confirms:
            await _until_there(cluster, confirmed)


async def _until_there(cluster: KafkaCluster, groups: set[str]) -> None:
    """Wait until other brokers lead, and the groups have what they had."""
    async with asyncio.timeout(90), AdminClient(config_of(cluster)) as admin:
        while True:
            listing = await admin.list_groups()
            if listing.complete and groups <= set(listing):
                break
            await asyncio.sleep(0.5)
        read = await admin.list_consumer_group_offsets(groups)
    assert all(answer.unwrap() == SAVED for answer in read.values())
