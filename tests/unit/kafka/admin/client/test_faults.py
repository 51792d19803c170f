"""Faults on the wire, on a scripted cluster: old brokers among new ones, other types, coordinators that move."""

from __future__ import annotations

import math
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import (
    IncompleteListingError,
    UnexpectedGroupTypeError,
)
from airflow_kafka_groups.kafka.protocol.api_versions import (
    DELETE_GROUPS,
    FIND_COORDINATOR,
    LIST_GROUPS,
    METADATA,
    OFFSET_FETCH,
)
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from tests.fakes import answers
from tests.fakes.cluster import MODERN, OLD, Drop, FakeCluster
from tests.unit.kafka.admin.client.faults import GROUPS, NONE, client, owned_by


class TestBatchingWhereItCan:
    async def test_a_mixed_cluster_keeps_batching_where_it_can(self) -> None:
        async with FakeCluster({1: OLD, 2: MODERN, 3: MODERN}) as fake, client(fake, route_by_hash=False) as admin:
            (await admin.list_consumer_group_offsets(GROUPS)).raise_for_errors()
        sizes = {
            broker: [len(s.keys) for s in fake.requests(OFFSET_FETCH) if s.broker_id == broker] for broker in (1, 2, 3)
        }
        assert set(sizes[1]) == {1}
        assert len(sizes[2]) == len(sizes[3]) == 1
        assert sum(map(sum, sizes.values())) == len(GROUPS)

    async def test_an_old_cluster_gives_the_same_answers_one_by_one(self) -> None:
        async with FakeCluster({1: OLD, 2: OLD}) as fake, client(fake, route_by_hash=False) as admin:
            old = await admin.list_consumer_group_offsets(GROUPS)
        async with FakeCluster() as modern, client(modern) as admin:
            assert (await admin.list_consumer_group_offsets(GROUPS)).succeeded == old.succeeded
        assert len(fake.requests(FIND_COORDINATOR)) == len(fake.requests(OFFSET_FETCH)) == len(GROUPS)

    @pytest.mark.parametrize("number", [1, 1000, 5000])
    async def test_requests_are_no_more_than_chunks_brokers_and_a_few(self, number: int) -> None:
        groups = [f"many-{i}" for i in range(number)]
        async with FakeCluster({1: MODERN, 2: MODERN, 3: MODERN}) as fake, client(fake, batch_size=200) as admin:
            (await admin.list_consumer_group_offsets(groups)).raise_for_errors()
        asked = [sent for sent in fake.sent if sent.api != "ApiVersions"]
        assert len(asked) <= math.ceil(number / 200) + 3 + 3
        assert not fake.requests(FIND_COORDINATOR)

    async def test_a_cluster_that_hashes_differently_is_asked_after_the_first_wrong_answers(self) -> None:
        groups = [f"many-{i}" for i in range(2000)]
        three, limits = dict.fromkeys((1, 2, 3), MODERN), {"batch_size": 100, "batches_in_flight": 1}
        async with FakeCluster(three, own_hash=True) as fake, client(fake, **limits) as admin:
            (await admin.list_consumer_group_offsets(groups)).raise_for_errors()
        assert fake.requests(FIND_COORDINATOR), "most guesses were wrong"
        assert len(fake.requests(OFFSET_FETCH)) <= 2000 / 100 + 3 + 6, "one wrong chunk a broker, not twenty"

    async def test_without_sight_of_the_offsets_topic_coordinators_are_looked_up(self) -> None:
        async with FakeCluster(topic_hidden=True) as fake, client(fake) as admin:
            (await admin.list_consumer_group_offsets(GROUPS)).raise_for_errors()
        assert len(fake.requests(FIND_COORDINATOR)) == 1

    async def test_a_coordinator_that_metadata_did_not_name_is_found_by_asking_metadata_again(self) -> None:
        """A proxy rewrites the addresses in Metadata, and may miss those in FindCoordinator v4."""
        async with FakeCluster(groups=set(GROUPS), own_hash=True, topic_hidden=True) as fake:
            known = fake.metadata(12)
            fake.control(METADATA, lambda _id, version, _request: fake.metadata(version, brokers=[1]))
            async with client(fake) as admin:
                assert known.brokers[1].node_id == 2
                fake.control(METADATA, lambda *_: None)
                fake.control(
                    FIND_COORDINATOR,
                    lambda _id, version, request: answers.find_coordinators(
                        version, {key: fake.coordinator(key) for key in request.coordinator_keys}, {1: 9, 2: 9}
                    ),
                )
                results = await admin.list_consumer_group_offsets(GROUPS)
        results.raise_for_errors()

    async def test_a_broker_that_moved_house_is_looked_for_in_metadata(self) -> None:
        async with FakeCluster(groups=set(GROUPS)) as fake:
            nobody = {1: 9, 2: 9}
            fake.control(METADATA, lambda _id, version, _request: fake.metadata(version, ports=nobody))
            async with client(fake, api_timeout=30) as admin:
                fake.control(METADATA, lambda *_: None)
                results = await admin.list_consumer_group_offsets(GROUPS)
        results.raise_for_errors()

    async def test_a_fresh_listing_says_who_coordinates_what(self) -> None:
        async with FakeCluster(groups=set(GROUPS), own_hash=True) as fake, client(fake) as admin:
            listing = await admin.list_groups()
            (await admin.list_consumer_group_offsets(listing)).raise_for_errors()
        assert not fake.requests(FIND_COORDINATOR)


class TestTypes:
    """A broker deletes share groups as readily as others (measured): here they are kept unless asked for by type."""

    def share(self, fake: FakeCluster, group_ids: list[str]) -> None:
        def listed(broker_id: int, version: int, request: Any) -> Any:
            mine = tuple(group for group in group_ids if fake.coordinator(group) == broker_id)
            return answers.list_groups(version, NONE, mine, kind="share") if "share" in request.types_filter else None

        fake.control(LIST_GROUPS, listed)

    async def test_a_share_group_is_kept_and_the_others_go(self) -> None:
        async with FakeCluster(groups=set(GROUPS)) as fake, client(fake) as admin:
            self.share(fake, GROUPS[:3])
            results = await admin.delete_consumer_groups(GROUPS)
            assert fake.groups == set(GROUPS[:3])
        assert set(results.failed) == set(GROUPS[:3])
        with pytest.raises(UnexpectedGroupTypeError, match="'g0' is a share group"):
            results["g0"].unwrap()

    async def test_one_that_is_asked_for_by_type_goes(self) -> None:
        async with FakeCluster(groups=set(GROUPS)) as fake, client(fake) as admin:
            self.share(fake, GROUPS[:3])
            results = await admin.delete_consumer_groups(GROUPS[:3], types=["classic", "consumer", "share"])
            assert fake.groups == set(GROUPS[3:])
        results.raise_for_errors()

    async def test_with_a_broker_that_does_not_list_its_groups_none_goes(self) -> None:
        async with FakeCluster(groups=set(GROUPS)) as fake, client(fake) as admin:
            fake.control(
                LIST_GROUPS,
                lambda broker_id, version, _request: (
                    answers.list_groups(version, ErrorCode.unknown_server_error) if broker_id == 2 else None
                ),
            )
            results = await admin.delete_consumer_groups(GROUPS)
            assert fake.groups == set(GROUPS)
            assert not fake.requests(DELETE_GROUPS)
        assert all(isinstance(error, IncompleteListingError) for error in results.failed.values())
        assert len(results.failed) == len(GROUPS)


class TestMoving:
    async def test_coordinators_that_move_while_they_are_asked_are_followed(self) -> None:
        async with FakeCluster() as fake, client(fake, batch_size=4, batches_in_flight=1) as admin:
            answered = 0

            def move(broker_id: int, version: int, request: Any) -> None:
                nonlocal answered
                answered += 1
                if answered == 3:
                    fake.moved = {group: 3 - fake.coordinator(group) for group in GROUPS[20:]}

            fake.control(OFFSET_FETCH, move)
            results = await admin.list_consumer_group_offsets(GROUPS)
        results.raise_for_errors()
        assert {len(offsets) for offsets in results.succeeded.values()} == {1}

    async def test_a_listing_that_is_still_loading_is_waited_for(self) -> None:
        async with FakeCluster(groups=set(GROUPS)) as fake, client(fake) as admin:
            loading = iter([ErrorCode.coordinator_load_in_progress] * 2)

            def load(broker_id: int, version: int, request: Any) -> Any:
                code = next(loading, None) if broker_id == 1 else None
                return None if code is None else answers.list_groups(version, code)

            fake.control(LIST_GROUPS, load)
            assert set((await admin.list_groups()).require_complete()) == set(GROUPS)

    async def test_a_broker_that_does_not_answer_makes_a_listing_short_and_it_says_so(self) -> None:
        async with FakeCluster(groups=set(GROUPS)) as fake, client(fake, request_timeout=0.05) as admin:
            fake.control(LIST_GROUPS, lambda broker_id, version, request: Drop if broker_id == 2 else None)
            listing = await admin.list_groups()
        assert set(listing) == set(owned_by(fake, 1))
        assert list(listing.errors) == [2]
        with pytest.raises(IncompleteListingError, match="broker 2"):
            listing.require_complete()


async def test_a_connection_that_answers_nothing_any_more_is_replaced() -> None:
    """A proxy, or a pod beside the broker, acknowledges what it gets and has lost the other side: no error comes."""
    async with FakeCluster(groups=set(GROUPS)) as fake, client(fake, request_timeout=0.3, api_timeout=3.0) as admin:
        assert not (await admin.list_consumer_group_offsets(GROUPS)).failed
        fake.silence()
        assert not (await admin.list_consumer_group_offsets(GROUPS)).failed
        fake.silence()
        assert (await admin.list_groups()).complete
