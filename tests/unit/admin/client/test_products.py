"""Products other than Apache Kafka, each as a scripted cluster with its recorded versions and behaviour.

docs/compatibility.md names these tests.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.protocol.apis import DESCRIBE_GROUPS, FIND_COORDINATOR, LIST_GROUPS, OFFSET_FETCH
from tests.fakes.cluster import MODERN, OLD, Drop, FakeCluster
from tests.unit.admin.client.faults import GROUPS, client, owned_by

MSK_SERVERLESS: Mapping[str, tuple[int, int]] = {
    **OLD,
    "FindCoordinator": (2, 3),
    "OffsetFetch": (5, 7),
    "ListGroups": (2, 4),
}
REDPANDA: Mapping[str, tuple[int, int]] = {**OLD, "ListGroups": (0, 3)}


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
