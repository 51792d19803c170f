"""Products other than Apache Kafka, each as a scripted cluster with its recorded versions and behaviour.

docs/help/compatibility.md names these tests.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.kafka.cluster.routing import OFFSETS_TOPIC
from airflow_kafka_groups.kafka.models import OffsetSpec, TopicPartition
from airflow_kafka_groups.kafka.protocol.api_versions import (
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    LIST_GROUPS,
    LIST_OFFSETS,
    OFFSET_FETCH,
)
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from tests.fakes import answers
from tests.fakes.cluster import MODERN, OLD, PARTITIONS, Drop, FakeCluster
from tests.unit.kafka.admin.client.faults import GROUPS, client, owned_by

MSK_SERVERLESS: Mapping[str, tuple[int, int]] = {
    **OLD,
    "FindCoordinator": (2, 3),
    "OffsetFetch": (5, 7),
    "ListGroups": (2, 4),
}
REDPANDA: Mapping[str, tuple[int, int]] = {**OLD, "ListGroups": (0, 3)}
# From the message definitions of AutoMQ 1.7.3, which is made of Kafka 3.9.1.
AUTOMQ: Mapping[str, tuple[int, int]] = {
    "ListOffsets": (0, 9),
    "Metadata": (0, 12),
    "OffsetCommit": (0, 9),
    "OffsetFetch": (0, 9),
    "FindCoordinator": (0, 6),
    "JoinGroup": (0, 9),
    "Heartbeat": (0, 4),
    "LeaveGroup": (0, 5),
    "SyncGroup": (0, 5),
    "DescribeGroups": (0, 5),
    "ListGroups": (0, 5),
    "ApiVersions": (0, 4),
    "DeleteGroups": (0, 2),
    "OffsetDelete": (0, 0),
    "ConsumerGroupDescribe": (0, 0),
}
AUTOMQ_ONLY = {
    **dict.fromkeys((501, 502, 506, 507, 509, 510, 511, 515), (0, 1)),
    **dict.fromkeys((503, 504, 505, 508, 512, 514, 517, 518, 519, 600, 601, 602), (0, 0)),
    516: (0, 2),
}


async def test_confluent_cloud_hides_the_offsets_topic() -> None:
    async with FakeCluster(groups=set(GROUPS), topic_hidden=True) as fake, client(fake) as admin:
        (await admin.list_consumer_group_offsets(GROUPS)).raise_for_errors()
        assert len(fake.requests(FIND_COORDINATOR)) == 1, "all groups are looked up in one request"
        assert (await admin.list_groups()).complete
        (await admin.delete_consumer_groups(GROUPS)).raise_for_errors()
    assert fake.groups == set()


async def test_msk_serverless_reads_one_group_per_request() -> None:
    async with FakeCluster({1: MSK_SERVERLESS, 2: MSK_SERVERLESS}, groups=set(GROUPS)) as fake, client(fake) as admin:
        (await admin.list_consumer_group_offsets(GROUPS)).raise_for_errors()
        assert {len(sent.keys) for sent in fake.requests(OFFSET_FETCH)} == {1}
        (await admin.delete_consumer_groups(GROUPS)).raise_for_errors()
    assert {sent.version for sent in fake.requests(OFFSET_FETCH)} == {7}
    assert {sent.version for sent in fake.requests(FIND_COORDINATOR)} <= {3}
    assert fake.groups == set()


async def test_msk_serverless_may_not_answer_describe_groups_on_some_brokers() -> None:
    async with FakeCluster({1: MSK_SERVERLESS, 2: MSK_SERVERLESS}, groups=set(GROUPS)) as fake:
        fake.control(DESCRIBE_GROUPS, lambda broker_id, _version, _request: Drop() if broker_id == 2 else None)
        async with client(fake, request_timeout=0.3, api_timeout=1.0) as admin:
            described = await admin.describe_consumer_groups(GROUPS)
    assert set(described.succeeded) == set(owned_by(fake, 1))
    assert set(described.failed) == set(owned_by(fake, 2)), "no answer is an error, and never 'does not exist'"
    assert all(isinstance(error, KafkaGroupsError) for error in described.failed.values())


async def test_redpanda_places_groups_in_its_own_way_and_the_client_remembers_that() -> None:
    groups = [f"many-{i}" for i in range(400)]
    async with (
        FakeCluster(dict.fromkeys((1, 2, 3), MODERN), own_hash=True) as fake,
        client(fake, batch_size=100) as admin,
    ):
        (await admin.list_consumer_group_offsets(groups)).raise_for_errors()
        first = len(fake.sent)
        (await admin.list_consumer_group_offsets(groups)).raise_for_errors()
        again = [sent.api for sent in fake.sent[first:]]
    assert first > len(again), "the first call pays for its wrong guesses"
    assert again.count("OffsetFetch") <= math.ceil(len(groups) / 100) + 2, "none goes to a wrong broker any more"
    assert again.count("FindCoordinator") >= 1


async def test_brokers_that_fail_over_are_no_other_product() -> None:
    async with FakeCluster(groups=set(GROUPS)) as fake, client(fake) as admin:
        fake.moved = dict.fromkeys(GROUPS[:3], 1)
        (await admin.list_consumer_group_offsets(GROUPS)).raise_for_errors()
        fake.moved = {}
        found = len(fake.requests(FIND_COORDINATOR))
        (await admin.list_consumer_group_offsets(GROUPS)).raise_for_errors()
    assert len(fake.requests(FIND_COORDINATOR)) == found, "a few groups that moved do not make the guesses wrong"


async def test_older_redpanda_is_listed_without_types() -> None:
    async with (
        FakeCluster({1: REDPANDA, 2: REDPANDA}, groups=set(GROUPS), own_hash=True) as fake,
        client(fake) as admin,
    ):
        listing = await admin.list_groups()
        (await admin.list_consumer_group_offsets(listing)).raise_for_errors()
    assert set(listing.require_complete()) == set(GROUPS)
    assert {sent.version for sent in fake.requests(LIST_GROUPS)} == {3}


@pytest.mark.parametrize(("reported", "known"), [("redpanda.initializing", None), ("redpanda.1a2b", "redpanda.1a2b")])
async def test_an_id_that_every_new_cluster_has_is_no_id(reported: str, known: str | None) -> None:
    async with FakeCluster(cluster_id=reported) as fake, client(fake) as admin:
        assert await admin.cluster_id() == known


async def test_warpstream_s_agents_come_and_go() -> None:
    async with FakeCluster({1: MODERN, 2: MODERN, 3: MODERN}, groups=set(GROUPS)) as fake, client(fake) as admin:
        (await admin.list_groups()).require_complete()
        fake.control(LIST_GROUPS, lambda broker_id, _version, _request: Drop() if broker_id == 3 else None)
        async with client(fake, request_timeout=0.3, api_timeout=1.0) as other:
            listing = await other.list_groups()
            deleted = await other.delete_consumer_groups(GROUPS)
    assert list(listing.errors) == [3]
    assert set(deleted.failed) == set(GROUPS), "nothing is deleted by a listing that lacks an agent"
    assert fake.groups == set(GROUPS)


def automq() -> FakeCluster:
    return FakeCluster(dict.fromkeys((1, 2, 3), AUTOMQ), groups=set(GROUPS), more_apis=AUTOMQ_ONLY)


async def test_automq_has_apis_of_its_own_and_batches_as_kafka_does() -> None:
    async with automq() as fake, client(fake) as admin:
        listing = await admin.list_groups()
        (await admin.list_consumer_group_offsets(listing)).raise_for_errors()
        assert len(fake.requests(OFFSET_FETCH)) == 3, "one request for all the groups of a broker"
        assert fake.requests(FIND_COORDINATOR) == [], "its groups are where Kafka's hash places them"
        (await admin.delete_consumer_groups(GROUPS)).raise_for_errors()
    assert set(listing.require_complete()) == set(GROUPS)
    assert fake.groups == set()


async def test_automq_refuses_list_offsets_while_it_has_too_many() -> None:
    asked = {TopicPartition(OFFSETS_TOPIC, partition): OffsetSpec.latest() for partition in range(PARTITIONS)}
    refused = iter(range(4))

    def busy(_broker_id: int, version: int, request: Any) -> Any:
        if next(refused, None) is None:
            return None
        keys = [(topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions]
        return answers.list_offsets(version, dict.fromkeys(keys, (-1, ErrorCode.request_timed_out)))

    async with automq() as fake, client(fake) as admin:
        fake.control(LIST_OFFSETS, busy)
        listed = await admin.list_offsets(asked)
    assert {getattr(found, "offset", found) for found in listed.values()} == {7}, "it is asked again"
    assert {sent.version for sent in fake.requests(LIST_OFFSETS)} == {9}
