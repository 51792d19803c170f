"""Faults of brokers and of answers: each costs its own groups, and no others."""

import asyncio
import math
from datetime import timedelta
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import (
    DeadlineExceededError,
    IncompleteListingError,
    MissingAnswerError,
    NoBrokerAvailableError,
    OutcomeUnknownError,
    RemoteProtocolError,
    UnexpectedGroupTypeError,
)
from airflow_kafka_groups.kafka.protocol.api_versions import (
    CONSUMER_GROUP_DESCRIBE,
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    LIST_GROUPS,
    METADATA,
    OFFSET_FETCH,
)
from airflow_kafka_groups.kafka.protocol.codec import response_schema
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from tests.fakes import answers
from tests.fakes.cluster import MODERN, OLD, Cut, Drop, FakeCluster, Noise
from tests.unit.kafka.admin.client.faults import GROUPS, NONE, client, owned_by, until


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
            before = len(fake.requests(FIND_COORDINATOR))
            (await admin.list_consumer_group_offsets(listing)).raise_for_errors()
            assert len(fake.requests(FIND_COORDINATOR)) == before


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


class TestSlowAndLost:
    async def test_a_slow_broker_delays_only_its_own_groups_and_is_named(self) -> None:
        async with FakeCluster() as fake, client(fake, api_timeout=0.6, request_timeout=30) as admin:
            fake.control(OFFSET_FETCH, lambda broker_id, version, request: Drop if broker_id == 2 else None)
            times: dict[str, float] = {}
            start = asyncio.get_running_loop().time()
            async for result in admin.stream_consumer_group_offsets(GROUPS):
                times[result.group_id] = asyncio.get_running_loop().time() - start
                if not result.ok:
                    assert isinstance(result.error, DeadlineExceededError)
                    assert "broker 2 to answer OffsetFetch" in str(result.error)
        assert max(times[group] for group in owned_by(fake, 1)) < 0.4
        assert min(times[group] for group in owned_by(fake, 2)) >= 0.6

    @pytest.mark.parametrize("faults", [[Drop], [Cut, Cut]], ids=["no answer", "breaks off"])
    async def test_a_question_without_an_answer_is_asked_again(self, faults: list[Any]) -> None:
        async with FakeCluster() as fake, client(fake, request_timeout=0.1) as admin:
            left = iter(faults)
            fake.control(OFFSET_FETCH, lambda broker_id, version, request: next(left, None))
            (await admin.list_consumer_group_offsets(GROUPS)).raise_for_errors()

    @pytest.mark.parametrize("fault", [Drop, Cut], ids=["no answer", "breaks off"])
    async def test_a_deletion_without_an_answer_is_not_sent_again(self, fault: Any) -> None:
        async with FakeCluster(groups=set(GROUPS)) as fake, client(fake, request_timeout=0.1) as admin:
            fake.control(DELETE_GROUPS, lambda broker_id, version, request: fault if broker_id == 2 else None)
            results = await admin.delete_consumer_groups(GROUPS)
        assert set(results.succeeded) == set(owned_by(fake, 1))
        assert all(isinstance(error, OutcomeUnknownError) for error in results.failed.values())
        assert len(fake.requests(DELETE_GROUPS)) == 2

    async def test_cancelling_leaves_no_task_and_no_socket_behind(self) -> None:
        async with FakeCluster() as fake:
            before = len(asyncio.all_tasks())

            async def ask() -> None:
                async with client(fake, batch_size=1) as admin:
                    await admin.list_consumer_group_offsets(GROUPS)

            fake.control(OFFSET_FETCH, lambda broker_id, version, request: Drop)
            task = asyncio.create_task(ask())
            await until(lambda: bool(fake.requests(OFFSET_FETCH)))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(lambda: not fake.open_connections and len(asyncio.all_tasks()) <= before)

    @pytest.mark.safety
    @pytest.mark.parametrize("first", [ErrorCode.coordinator_not_available, ErrorCode.not_coordinator])
    async def test_a_deletion_that_was_written_and_not_replicated_is_of_unknown_outcome_when_the_group_is_back(
        self, first: ErrorCode
    ) -> None:
        """The broker may have deleted the group that has members by now: that refusal is about another one."""
        codes = iter([first])
        async with FakeCluster({1: MODERN}, groups={"g"}) as fake, client(fake) as admin:
            fake.control(
                DELETE_GROUPS,
                lambda _, version, request: answers.delete_groups(
                    version, {"g": next(codes, ErrorCode.non_empty_group)}
                ),
            )
            error = (await admin.delete_consumer_groups(["g"]))["g"].error
        assert len(fake.requests(DELETE_GROUPS)) == 2
        assert "NON_EMPTY_GROUP" in str(error)
        assert isinstance(error, OutcomeUnknownError) is (first is ErrorCode.coordinator_not_available)


class TestOutOfShape:
    async def test_noise_for_an_answer_fails_its_groups_by_name(self) -> None:
        async with FakeCluster({1: MODERN}) as fake, client(fake) as admin:
            fake.control(OFFSET_FETCH, lambda broker_id, version, request: Noise(b"\xff\xfe\xfd"))
            results = await admin.list_consumer_group_offsets(GROUPS)
        assert {type(error) for error in results.failed.values()} == {RemoteProtocolError}
        assert set(results.failed) == set(GROUPS)

    async def test_a_field_that_the_codec_does_not_know_fails_its_groups_at_once(self) -> None:
        tagged = b"\x01\x4d\x01x"  # a field with the number 77
        group = b"\x00\x00\x00\x02g\x01" + bytes(8) + b"\x01\x01" + bytes(4) + tagged
        unknown = bytes(4) + b"\x02" + group + b"\x00"
        absent = dict.fromkeys(GROUPS, ErrorCode.group_id_not_found)
        async with FakeCluster({1: MODERN}) as fake, client(fake) as admin:
            fake.control(DESCRIBE_GROUPS, lambda _, version, request: answers.describe_groups(version, absent))
            fake.control(CONSUMER_GROUP_DESCRIBE, lambda *_: Noise(unknown))
            async with asyncio.timeout(10):
                results = await admin.describe_consumer_groups(GROUPS)
        assert {type(error) for error in results.failed.values()} == {RemoteProtocolError}

    async def test_a_group_left_out_of_an_answer_fails_by_its_name(self) -> None:
        async with FakeCluster({1: MODERN}) as fake, client(fake) as admin:
            fake.control(
                OFFSET_FETCH,
                lambda broker_id, version, request: answers.offset_fetch(version, dict.fromkeys(GROUPS[1:], NONE)),
            )
            results = await admin.list_consumer_group_offsets(GROUPS)
        assert list(results.failed) == GROUPS[:1]
        assert isinstance(results.failed[GROUPS[0]], MissingAnswerError)

    async def test_answers_go_by_name_and_not_by_place(self) -> None:
        async with FakeCluster(topic_hidden=True) as fake, client(fake) as admin:

            def backwards(broker_id: int, version: int, request: Any) -> Any:
                found = {key: fake.coordinator(key) for key in reversed(request.coordinator_keys)}
                return answers.find_coordinators(version, found, fake._ports)

            fake.control(FIND_COORDINATOR, backwards)
            found = await admin.find_coordinators(GROUPS)
        assert {key: broker.broker_id for key, broker in found.succeeded.items()} == {
            group: fake.coordinator(group) for group in GROUPS
        }

    async def test_brokers_that_never_say_what_the_cluster_is_are_waited_for_as_long_as_a_call_may_take(self) -> None:
        async with FakeCluster() as fake:
            fake.control(METADATA, lambda *_: Drop)
            with pytest.raises(NoBrokerAvailableError, match=r"within 0.3 s"):
                async with client(fake, api_timeout=0.3, request_timeout=60):
                    pass

    async def test_metadata_without_brokers_is_no_cluster(self) -> None:
        async with FakeCluster({1: MODERN}) as fake:
            fake.control(METADATA, lambda broker_id, version, request: answers.metadata(version, {}, {}))
            with pytest.raises(ConnectionError, match="knows no brokers"):
                async with client(fake):
                    pass


class TestPartitions:
    async def test_an_unstable_partition_is_asked_for_again_until_it_is_stable(self) -> None:
        async with FakeCluster({1: MODERN}) as fake, client(fake) as admin:
            unstable = iter([ErrorCode.unstable_offset_commit] * 2)

            def commit(broker_id: int, version: int, request: Any) -> Any:
                assert request.require_stable
                return answers.offset_fetch(version, {"g0": NONE}, {("t", 0): (5, next(unstable, NONE))})

            fake.control(OFFSET_FETCH, commit)
            offsets = (await admin.list_consumer_group_offsets(["g0"], require_stable=True))["g0"].unwrap()
        assert len(offsets) == 1
        assert len(fake.requests(OFFSET_FETCH)) == 3


async def test_a_bug_in_a_handler_is_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("airflow_kafka_groups.kafka.protocol.apis.offset_fetch.named", broken)
    async with FakeCluster({1: MODERN}) as fake, client(fake) as admin:
        async with asyncio.timeout(5):
            with pytest.raises(ZeroDivisionError):
                await admin.list_consumer_group_offsets(GROUPS)


async def test_the_next_call_keeps_quiet_too() -> None:
    """A chunk of a deletion is a call; what the broker asked for at the end of one holds for the next."""
    async with FakeCluster({1: MODERN}) as fake, client(fake) as admin:

        def throttle(broker_id: int, version: int, request: Any) -> Any:
            schema = response_schema(LIST_GROUPS, version)
            return schema.ListGroupsResponse(throttle_time=timedelta(milliseconds=300), error_code=NONE, groups=())

        fake.control(LIST_GROUPS, throttle)
        await admin.list_groups()
        await admin.list_consumer_group_offsets(["g0"])
    asked, (then,) = fake.requests(LIST_GROUPS)[-1], fake.requests(OFFSET_FETCH)
    assert then.at - asked.at >= 0.29
