"""A broker that stood still knows nothing of its successor: it answers by what it knew, and the successor deletes.

A broker is stopped for longer than ``broker.session.timeout.ms``, as by a garbage collection or a move of its machine.
Its groups get another coordinator, and clients without membership commit there. What was asked of the broker meanwhile
is answered when it goes on, before it hears that it was replaced: each group is Empty, and its offsets have not moved.
Nor is a group set back by it that was to be kept alive, nor does it lose a topic that seemed to be abandoned.
"""

import asyncio
import os
import signal
import time
from contextlib import suppress
from typing import cast

import pytest

from airflow_kafka_groups.change.deletion.chunk_loop import delete_safe
from airflow_kafka_groups.change.deletion.chunk_reader import ChunkReader
from airflow_kafka_groups.change.restore.commit_changes import apply_changes
from airflow_kafka_groups.exceptions import BrokerError
from airflow_kafka_groups.kafka import AdminClient, ClientConfig
from airflow_kafka_groups.kafka.admin.results import GroupListings
from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient
from airflow_kafka_groups.kafka.models import (
    GroupListing,
    GroupOffsets,
    GroupState,
    GroupType,
    OffsetAndMetadata,
    TopicPartition,
)
from airflow_kafka_groups.ledger.plan_rows import Target
from airflow_kafka_groups.ledger.proposed_changes import Change, ChangeOutcome
from airflow_kafka_groups.observe.fingerprint import fingerprint
from tests.fakes.lease import at_once
from tests.integration.conftest import config_of
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.topics import create_topics

TOPIC = "stale-coordinator"
GROUPS = [f"stale-{number:02d}" for number in range(40)]
WHERE = TopicPartition(TOPIC, 0)
BEFORE = {WHERE: OffsetAndMetadata(1)}
AFTER = {WHERE: OffsetAndMetadata(2)}
PRINT = fingerprint(GroupOffsets.from_mapping("", BEFORE))


@pytest.mark.timeout(300)
@pytest.mark.safety
@pytest.mark.flaky(reruns=1, only_rerun=["^TimeoutError"])  # an overloaded cluster elects no successor
@pytest.mark.parametrize("version", ["4.1.0", "3.9.2"])
async def test_what_a_broker_says_that_was_replaced_deletes_nothing_at_its_successor(version: str) -> None:
    with KafkaCluster(version=version, brokers=3) as cluster:
        await asyncio.to_thread(create_topics, cluster.bootstrap, {TOPIC: 1})
        await asyncio.to_thread(commit_offsets, cluster.bootstrap, {group: {(TOPIC, 0): 1} for group in GROUPS})
        config = config_of(cluster, request_timeout=60, api_timeout=60)
        stopped = cluster.brokers[-1]
        others = ",".join(cluster.address(node_id) for node_id in cluster.brokers if node_id != stopped)
        async with AdminClient(config) as admin:
            found = await admin.find_coordinators(GROUPS)
            groups = [group for group in GROUPS if found[group].unwrap().broker_id == stopped]
            deleted, set_back, pruned = groups[::3], groups[1::3], groups[2::3]
            reader = reader_of(admin, deleted)
            assert set((await reader.read(expected(deleted))).safe) == set(deleted) != set()  # connects, too
            os.kill(cluster.pid(stopped), signal.SIGSTOP)
            try:
                await commit_elsewhere(others, groups)
                reading = asyncio.create_task(reader.read(expected(deleted)))
                changes = [Change(group_id=group, before=BEFORE, after=BEFORE) for group in set_back]
                describing = asyncio.create_task(admin.describe_consumer_groups(pruned))
                changing = asyncio.create_task(
                    apply_changes(cast("MaintenanceClient", admin), changes, dry_run=False, rewrite=True)
                )
                await asyncio.sleep(0.5)
            finally:
                os.kill(cluster.pid(stopped), signal.SIGCONT)
            safe = (await reading).safe
            results = await delete_safe(admin, await reading, 15, at_once)
            for group, described in (await describing).items():
                if (value := described.value) is not None:
                    with suppress(BrokerError):
                        await admin.delete_consumer_group_offsets(group, [WHERE], coordinator=value.coordinator)
            changed = await changing
            read = await admin.list_consumer_group_offsets(groups)
        assert [result.unwrap() for result in read.values()] == [AFTER] * len(groups), (
            f"{len(safe)} group(s) were read as they had been"
        )
        if version.startswith("4"):  # Kafka 3.9 confirms what no replica has, and forgets it
            assert all(isinstance(result.error, BrokerError) for result in results.values())
        assert {result.outcome for result in changed} <= {ChangeOutcome.KEPT, ChangeOutcome.FAILED}


def expected(groups: list[str]) -> list[Target]:
    return [Target(group, "classic", "", PRINT) for group in groups]


def reader_of(admin: AdminClient, groups: list[str]) -> ChunkReader:
    """Return what reads these groups: each is listed, and backed up as it was."""
    listings = GroupListings(
        [
            GroupListing(
                group_id=group, protocol_type="", state=GroupState.EMPTY, type=GroupType.CLASSIC, coordinator=0
            )
            for group in groups
        ],
        {},
    )
    entries = {
        group: Target(group_id=group, group_type="classic", protocol_type="", partitions=1, fingerprint=PRINT)
        for group in groups
    }
    return ChunkReader(admin, listings, entries, {}, 60, time.monotonic)


async def commit_elsewhere(bootstrap: str, groups: list[str]) -> None:
    """Commit the next offset, as soon as the groups have another coordinator."""
    config = ClientConfig.from_librdkafka({"bootstrap.servers": bootstrap}, request_timeout=3, api_timeout=30)
    async with asyncio.timeout(180), AdminClient(config) as admin:
        while (await admin.alter_consumer_group_offsets(dict.fromkeys(groups, AFTER))).failed:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
