"""A cluster whose offsets topic has one replica, and one broker of which is killed: some groups cannot be listed."""

import asyncio

import pytest

from airflow_kafka_groups.exceptions import IncompleteListingError
from airflow_kafka_groups.kafka import AdminClient
from airflow_kafka_groups.kafka.cluster.routing import OFFSETS_TOPIC
from airflow_kafka_groups.kafka.models import TopicPartition
from tests.integration.conftest import config_of
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import commit_offsets, coordinator_partition
from tests.lab.workload.topics import create_topics

pytestmark = pytest.mark.timeout(240)


async def test_a_killed_broker_without_replicas_makes_listings_incomplete() -> None:
    groups = [f"alone-{number:02d}" for number in range(60)]
    replication = {"offsets.topic.replication.factor": 1}
    with KafkaCluster(version="4.1.0", brokers=3, config=replication) as cluster:
        await asyncio.to_thread(create_topics, cluster.bootstrap, {"alone": 1}, replication_factor=3)
        await asyncio.to_thread(commit_offsets, cluster.bootstrap, {group: {("alone", 0): 1} for group in groups})
        async with AdminClient(config_of(cluster)) as admin:
            assert set((await admin.list_groups()).require_complete()) >= set(groups)
        cluster.kill(cluster.brokers[-1])
        async with asyncio.timeout(60):
            while True:
                async with AdminClient(config_of(cluster)) as admin:  # a new process knows nothing of the dead broker
                    listing = await admin.list_groups()
                    alive = len((await admin.describe_cluster()).brokers)
                missing = [where for where in listing.errors if isinstance(where, TopicPartition)]
                if alive == 2 and missing:
                    break
                await asyncio.sleep(0.5)
    hidden = {group for group in groups if TopicPartition(OFFSETS_TOPIC, coordinator_partition(group, 50)) in missing}
    assert hidden == set(groups) - set(listing) != set()
    assert not listing.complete
    with pytest.raises(IncompleteListingError, match=f"no leader.*: {OFFSETS_TOPIC}-"):
        listing.require_complete()
