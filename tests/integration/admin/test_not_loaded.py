"""A partition of ``__consumer_offsets`` that its leader cannot load: Kafka 4 lists its groups nowhere."""

import asyncio
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from airflow_kafka_groups.kafka.cluster.routing import OFFSETS_TOPIC, offsets_partitions
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.storage.layout import Layout
from tests.integration.conftest import config_of, connection_client
from tests.lab.cluster import KafkaCluster
from tests.lab.errors import LabError
from tests.lab.workload.groups import seed_groups
from tests.lab.workload.topics import create_topics

PARTITIONS = 4
GROUPS = [f"loaded-{number}" for number in range(12)]
DAMAGED = offsets_partitions(GROUPS[:1], PARTITIONS)[0]
UNREADABLE = b"\x00\x02\x00"  # the version of a key, and not all of the key


@pytest.mark.safety
@pytest.mark.timeout(180)
async def test_a_listing_without_a_partition_that_could_not_be_loaded_is_not_complete(tmp_path: Path) -> None:
    with KafkaCluster(version="4.1.0", brokers=1, config={"offsets.topic.num.partitions": PARTITIONS}) as cluster:
        await asyncio.to_thread(create_topics, cluster.bootstrap, {"t": 1})
        await asyncio.to_thread(seed_groups, cluster.bootstrap, GROUPS, {("t", 0): 0})
        async with connection_client(config_of(cluster)) as admin:
            assert set((await admin.list_groups()).require_complete()) == set(GROUPS)
            await asyncio.to_thread(_damage, cluster)
            listing = await admin.list_groups()
            summary = await take_snapshot(admin, Layout(tmp_path, "lab"))
    assert set(GROUPS) - set(listing), "the partition is loaded"
    assert list(listing.errors) == [TopicPartition(OFFSETS_TOPIC, DAMAGED)]
    assert (summary.complete, list(summary.missing_brokers)) == (False, [f"{OFFSETS_TOPIC}-{DAMAGED}"])


def _damage(cluster: KafkaCluster) -> None:
    """Write what no coordinator can read, and wait until the coordinator has noticed that the log is another one."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "client.id": "__admin_client"})
    producer.produce(OFFSETS_TOPIC, key=UNREADABLE, value=b"\x00\x03", partition=DAMAGED)
    assert producer.flush(30) == 0
    deadline = time.monotonic() + 60
    while "Failed to load metadata" not in cluster.log_tail(1, 200):
        assert time.monotonic() < deadline
        try:
            seed_groups(cluster.bootstrap, GROUPS[:1], {("t", 0): 0})
        except LabError:  # nobody takes it any more
            return
