"""Listings: of products that list otherwise than Kafka, and of partitions without a leader."""

import asyncio
import math
import re
from collections.abc import Mapping
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import (
    ConnectionFailedError,
    EmptyGroupsNotListedError,
    IncompleteListingError,
    KafkaGroupsError,
)
from airflow_kafka_groups.kafka import AdminClient, ClientConfig
from airflow_kafka_groups.kafka.cluster import products
from airflow_kafka_groups.kafka.cluster.routing import OFFSETS_TOPIC, offsets_partitions
from airflow_kafka_groups.kafka.models import OffsetSpec, TopicPartition
from airflow_kafka_groups.kafka.protocol.api_versions import (
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    LIST_GROUPS,
    LIST_OFFSETS,
    OFFSET_FETCH,
)
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from airflow_kafka_groups.kafka.transport.connection import BrokerConnection, open_connection
from airflow_kafka_groups.kafka.transport.security import SecurityConfig
from tests.fakes import answers
from tests.fakes.cluster import MODERN, OLD, PARTITIONS, Drop, FakeCluster
from tests.unit.kafka.admin.client.faults import GROUPS, client, owned_by


async def test_a_listing_without_empty_groups_is_never_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_SERVERS", ((re.compile(""), products.EVENT_HUBS),))  # whatever the server's name is
    async with FakeCluster(groups=set(GROUPS)) as fake, client(fake) as admin:
        listing = await admin.list_groups()
        deleted = await admin.delete_consumer_groups(GROUPS)
    assert set(listing) == set(GROUPS)
    assert {type(error) for error in listing.errors.values()} == {EmptyGroupsNotListedError}
    with pytest.raises(IncompleteListingError, match=r"Azure Event Hubs lists groups with members only.*the groups$"):
        listing.require_complete()
    assert {type(error) for error in deleted.failed.values()} == {IncompleteListingError}


class Moving:
    """Let partitions of ``__consumer_offsets`` go from broker 2, before it answers, to broker 1, which has answered."""

    def __init__(self, fake: FakeCluster, times: int) -> None:
        self._fake = fake
        self._left = times
        fake.control(LIST_GROUPS, self._move)

    async def _move(self, broker_id: int, version: int, request: Any) -> None:
        while broker_id == 2 and len(self._fake.requests(LIST_GROUPS)) % 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # broker 1 answers first
        if broker_id == 2 and self._left:
            self._left -= 1
            await asyncio.sleep(0.05)
            some = self._left % 4  # not those of before, also where brokers are asked twice
            self._fake.leaders = {partition: 1 for partition in range(PARTITIONS) if partition % 4 == some}


async def test_a_group_that_moves_to_a_broker_that_has_answered_is_listed_all_the_same() -> None:
    async with FakeCluster(groups=set(GROUPS)) as fake, client(fake) as admin:
        Moving(fake, 1)
        listing = await admin.list_groups()
    assert listing.complete
    assert set(listing) == set(GROUPS)


async def test_a_listing_whose_partitions_move_again_and_again_is_not_complete() -> None:
    async with FakeCluster(groups=set(GROUPS)) as fake, client(fake) as admin:
        Moving(fake, 99)
        listing = await admin.list_groups()
    assert not listing.complete
    assert {where.topic for where in listing.errors if isinstance(where, TopicPartition)} == {OFFSETS_TOPIC}
    with pytest.raises(
        IncompleteListingError, match=r"\d\d partition\(s\) moved to another broker.*: __consumer_offsets-\d, "
    ):
        listing.require_complete()


async def test_brokers_that_cannot_be_reached_are_waited_for_side_by_side() -> None:
    async def connect(host: str, port: int) -> BrokerConnection:
        if port == port_of_first:
            return await open_connection(host, port, security=SecurityConfig(), client_id="t", timeout=5)
        await asyncio.sleep(0.4)
        raise ConnectionFailedError(f"{host}:{port}", "no Kafka broker answered")

    async with FakeCluster(versions=dict.fromkeys(range(1, 12), MODERN)) as fake:
        bootstrap = fake.bootstrap.split(",")[0]
        port_of_first = int(bootstrap.rpartition(":")[2])
        async with AdminClient(ClientConfig.from_librdkafka({"bootstrap.servers": bootstrap}), connect) as admin:
            async with asyncio.timeout(2):
                described = await admin.describe_cluster()
    assert len(described.api_versions) == 1
    assert len(described.errors) == 10


HIDDEN = offsets_partitions([GROUPS[0]], PARTITIONS)[0]
WHERE = TopicPartition(OFFSETS_TOPIC, HIDDEN)
NONE, NOT_COORDINATOR = ErrorCode.none, ErrorCode.not_coordinator


@pytest.mark.parametrize("leader", [-1, 9], ids=["none", "a broker that is gone"])
async def test_a_listing_names_the_partitions_that_no_broker_leads(leader: int) -> None:
    async with FakeCluster(groups=set(GROUPS)) as fake:
        fake.leaders[HIDDEN] = leader
        async with client(fake) as admin:
            listing = await admin.list_groups()
    assert GROUPS[0] not in listing
    assert not listing.complete
    assert list(listing.errors) == [WHERE]
    assert "LEADER_NOT_AVAILABLE" in str(listing.errors[WHERE])
    assert repr(listing).endswith("groups | 1 brokers or partitions missing]>")
    with pytest.raises(IncompleteListingError, match=rf"1 partition\(s\) have no leader.*: {OFFSETS_TOPIC}-{HIDDEN}$"):
        listing.require_complete()


def fail_to_load(fake: FakeCluster) -> None:
    """Let nobody coordinate the groups of a partition, as Kafka 4 does where its leader could not read it."""

    def describe(broker_id: int, version: int, request: Any) -> Any:
        ids = request.groups
        hidden = [where == HIDDEN for where in offsets_partitions(ids, PARTITIONS)]
        codes = {id_: NOT_COORDINATOR if hides else NONE for id_, hides in zip(ids, hidden, strict=True)}
        return answers.describe_groups(version, codes)

    fake.control(DESCRIBE_GROUPS, describe)


@pytest.mark.safety
async def test_a_listing_names_the_partitions_whose_leader_could_not_load_them() -> None:
    async with FakeCluster(groups=set(GROUPS[1:])) as fake, client(fake) as admin:
        (await admin.list_groups()).require_complete()
        fail_to_load(fake)
        listing = await admin.list_groups()
        assert list(listing.errors) == [WHERE]
        assert "NOT_COORDINATOR" in str(listing.errors[WHERE])
        with pytest.raises(IncompleteListingError, match=rf"1 partition\(s\) are coordinated by no .*-{HIDDEN}$"):
            listing.require_complete()
        assert (await admin.list_groups(types=["classic"])).complete, "a filter leaves groups out anyway"


@pytest.mark.safety
async def test_of_many_groups_only_the_partition_without_one_is_asked_about() -> None:
    many = [f"group-{number}" for number in range(3_500)]
    listed = {id_ for id_, where in zip(many, offsets_partitions(many, PARTITIONS), strict=True) if where != HIDDEN}
    async with FakeCluster(groups=listed) as fake, client(fake) as admin:
        fail_to_load(fake)
        listing = await admin.list_groups()
        assert (set(listing), list(listing.errors)) == (listed, [WHERE])
        asked = {id_ for sent in fake.requests(DESCRIBE_GROUPS) for id_ in sent.keys}
    assert list(offsets_partitions(list(asked), PARTITIONS)) == [HIDDEN]


@pytest.mark.parametrize("groups", [600, 3_500])
async def test_where_each_partition_lists_a_group_nothing_else_is_asked(groups: int) -> None:
    many = {f"group-{number}" for number in range(groups)}
    assert len(set(offsets_partitions(sorted(many), PARTITIONS))) == PARTITIONS
    async with FakeCluster(groups=many) as fake, client(fake) as admin:
        (await admin.list_groups()).require_complete()
        assert (fake.requests(DESCRIBE_GROUPS), fake.requests(FIND_COORDINATOR)) == ([], [])


@pytest.mark.safety
@pytest.mark.parametrize("product", [None, products.MSK], ids=["Kafka", "MSK"])
async def test_groups_of_a_partition_that_its_leader_loads_only_when_it_has_listed_the_others_are_listed(
    product: products.Product | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker tells others that it leads a partition before its coordinator has heard of it."""
    monkeypatch.setattr(products, "_SERVERS", ((re.compile(""), product),))
    async with FakeCluster(groups=set(GROUPS)) as fake, client(fake) as admin:
        late = set[int]()

        def listed(broker_id: int, version: int, request: Any) -> Any:
            own = [id_ for id_ in GROUPS if fake.coordinator(id_) == broker_id]
            if broker_id not in late:
                late.add(broker_id)
                own = [id_ for id_ in own if offsets_partitions([id_], PARTITIONS) != [HIDDEN]]
            return answers.list_groups(version, NONE, tuple(own))

        fake.control(LIST_GROUPS, listed)
        listing = (await admin.list_groups()).require_complete()
    assert sorted(listing) == sorted(GROUPS)
    assert late == {1, 2}


@pytest.mark.safety
async def test_one_group_that_its_partitions_leader_does_not_list_hides_no_other_partition() -> None:
    """The metadata is older than the move of one partition, and another one is not loaded."""
    many = [f"group-{number}" for number in range(100)]
    listed = [id_ for id_, where in zip(many, offsets_partitions(many, PARTITIONS), strict=True) if where != HIDDEN]
    async with FakeCluster(groups=set(listed)) as fake, client(fake) as admin:
        fail_to_load(fake)

        def by_the_other(broker_id: int, version: int, request: Any) -> Any:
            own = [id_ for id_ in listed[1:] if fake.coordinator(id_) == broker_id]
            own += listed[:1] if fake.coordinator(listed[0]) != broker_id else []
            return answers.list_groups(version, NONE, tuple(own))

        fake.control(LIST_GROUPS, by_the_other)
        listing = await admin.list_groups()
    assert (set(listing), list(listing.errors)) == (set(listed), [WHERE])


@pytest.mark.parametrize(
    ("code", "complete"),
    [(ErrorCode.group_authorization_failed, True), (ErrorCode.coordinator_load_in_progress, False)],
)
async def test_a_user_who_may_see_some_groups_only_has_them_all_and_a_partition_that_is_loading_lists_none(
    code: ErrorCode, complete: bool
) -> None:
    async with FakeCluster(groups=set(GROUPS)) as fake, client(fake) as admin:
        fake.control(
            DESCRIBE_GROUPS,
            lambda _, version, asked: answers.describe_groups(version, dict.fromkeys(asked.groups, code)),
        )
        assert (await admin.list_groups()).complete is complete


async def test_a_cluster_that_places_groups_otherwise_lists_all_of_them() -> None:
    async with FakeCluster(groups=set(GROUPS), own_hash=True) as fake, client(fake) as admin:
        assert (await admin.list_groups()).complete


async def test_a_leader_that_is_lost_after_the_first_request_is_noticed() -> None:
    async with FakeCluster(groups=set(GROUPS)) as fake, client(fake) as admin:
        (await admin.list_groups()).require_complete()
        fake.leaders[HIDDEN] = -1
        await admin.describe_cluster()  # requests the metadata again
        assert not (await admin.list_groups()).complete
        del fake.leaders[HIDDEN]
        await admin.describe_cluster()
        assert set((await admin.list_groups()).require_complete()) == set(GROUPS)


async def test_a_leader_that_is_elected_during_the_listing_was_still_not_asked() -> None:
    async with FakeCluster(groups=set(GROUPS)) as fake:
        fake.leaders[HIDDEN] = -1
        # The metadata may be requested of the broker whose answer waits for it: that request has to give up.
        async with client(fake, request_timeout=1) as admin:

            async def elect(broker_id: int, version: int, request: Any) -> None:
                if fake.leaders.pop(HIDDEN, None) is not None:
                    await admin.describe_cluster()

            fake.control(LIST_GROUPS, elect)
            listing = await admin.list_groups()
    assert list(listing.errors) == [WHERE]


async def test_a_listing_by_state_or_pattern_is_not_complete_either() -> None:
    async with FakeCluster(groups=set(GROUPS)) as fake:
        fake.leaders[HIDDEN] = -1
        async with client(fake) as admin:
            assert list((await admin.list_groups(states=["Empty"])).errors) == [WHERE]
            assert list((await admin.list_groups(group_id_pattern="nothing")).errors) == [WHERE]


async def test_no_group_is_deleted_while_groups_of_another_type_may_be_hidden() -> None:
    async with FakeCluster(groups=set(GROUPS)) as fake:
        fake.leaders[HIDDEN] = -1
        async with client(fake) as admin:
            results = await admin.delete_consumer_groups(GROUPS[1:])
    assert {type(error) for error in results.failed.values()} == {IncompleteListingError}
    assert fake.groups == set(GROUPS)


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


async def test_redpanda_places_groups_in_its_own_way_and_its_coordinators_are_looked_up() -> None:
    groups = [f"many-{i}" for i in range(400)]
    async with (
        FakeCluster(dict.fromkeys((1, 2, 3), MODERN), own_hash=True, cluster_id="redpanda.1a2b") as fake,
        client(fake, batch_size=100) as admin,
    ):
        (await admin.list_consumer_group_offsets(groups)).raise_for_errors()
        asked = [sent.api for sent in fake.sent]
    assert asked.count("OffsetFetch") <= math.ceil(len(groups) / 100) + 2, "none goes to a wrong broker"
    assert asked.count("FindCoordinator") >= 1


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
