"""Partitions of ``__consumer_offsets`` without a leader: no broker lists their groups."""

from __future__ import annotations

import re
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import IncompleteListingError
from airflow_kafka_groups.kafka.cluster import products
from airflow_kafka_groups.kafka.cluster.routing import OFFSETS_TOPIC, offsets_partitions
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.kafka.protocol.api_versions import DESCRIBE_GROUPS, FIND_COORDINATOR, LIST_GROUPS
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from tests.fakes import answers
from tests.fakes.cluster import PARTITIONS, FakeCluster
from tests.unit.kafka.admin.client.faults import GROUPS, client

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
    assert repr(listing).endswith("groups | 0 brokers missing | 1 partitions missing]>")
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


@pytest.mark.parametrize("hidden", [True, False])
async def test_a_topic_that_is_hidden_or_led_everywhere_hides_nothing(hidden: bool) -> None:
    async with FakeCluster(groups=set(GROUPS), topic_hidden=hidden) as fake, client(fake) as admin:
        assert set((await admin.list_groups()).require_complete()) == set(GROUPS)
