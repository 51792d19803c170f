"""Changes of groups: sized by what brokers write, in slices where a batch is too small, of the types named only."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import (
    BrokerError,
    ConfigurationError,
    MissingAnswerError,
    NotSentError,
    OutcomeUnknownError,
    PartitionsFailedError,
    UnexpectedGroupTypeError,
)
from airflow_kafka_groups.kafka.admin.handlers.delete_groups import BUDGET_BYTES
from airflow_kafka_groups.kafka.admin.results import GroupResult
from airflow_kafka_groups.kafka.cluster.routing import offsets_partitions
from airflow_kafka_groups.kafka.models import GroupOffsets, GroupType, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.kafka.protocol.api_versions import (
    API_VERSIONS,
    DELETE_GROUPS,
    FIND_COORDINATOR,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
)
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from tests.fakes import answers
from tests.fakes.cluster import MODERN, OLD, Cut, Drop, FakeCluster
from tests.unit.kafka.admin.client.faults import client


async def test_every_broker_is_asked_for_groups_of_the_types_that_are_not_meant() -> None:
    async with FakeCluster(groups={"g0"}) as fake, client(fake) as admin:
        assert (await admin.delete_consumer_groups(["g0"]))["g0"].ok
        assert sorted(sent.broker_id for sent in fake.requests(LIST_GROUPS)) == [1, 2]


async def test_where_all_types_are_meant_nobody_is_asked_and_no_group_is_refused() -> None:
    async with FakeCluster(groups={"g0"}) as fake, client(fake) as admin:
        assert (await admin.delete_consumer_groups(["g0"], types=set(GroupType)))["g0"].ok
        assert fake.requests(LIST_GROUPS) == []
        assert [sent.keys for sent in fake.requests(DELETE_GROUPS)] == [("g0",)]


async def test_only_the_coordinators_that_are_named_are_asked_to_delete() -> None:
    """Who has just read groups decided by what these brokers know; their successors may know better."""
    async with FakeCluster(groups={"g0", "g1", "g2"}) as fake, client(fake) as admin:
        named = {group: fake.coordinator(group) for group in ("g0", "g1")}
        fake.moved = {"g1": 3 - named["g1"]}
        results = await admin.delete_consumer_groups(["g0", "g1", "g2"], coordinators=named)
        assert [(sent.broker_id, sent.keys) for sent in fake.requests(DELETE_GROUPS) if "g1" in sent.keys] == [
            (named["g1"], sent.keys) for sent in fake.requests(DELETE_GROUPS) if "g1" in sent.keys
        ], "the new coordinator was not asked"
        assert fake.requests(FIND_COORDINATOR) == []
    assert results["g0"].ok
    assert isinstance(results["g1"].error, BrokerError)
    assert results["g1"].error.name == "NOT_COORDINATOR"
    assert isinstance(results["g2"].error, MissingAnswerError), "nobody said who coordinates it"
    assert fake.groups == {"g1", "g2"}


@pytest.mark.parametrize("size", [1, 3_000])
async def test_only_the_coordinators_that_are_named_are_asked_to_commit(size: int) -> None:
    commits = {TopicPartition("w" * 200, number): OffsetAndMetadata(1) for number in range(size)}
    async with FakeCluster(groups={"g0", "g1"}) as fake, client(fake) as admin:
        before = fake.coordinator("g0")
        fake.moved = {"g0": 3 - before}
        results = await admin.alter_consumer_group_offsets(
            dict.fromkeys(["g0", "g1"], commits), coordinators={"g0": before}
        )
        assert {(sent.broker_id, sent.keys) for sent in fake.requests(OFFSET_COMMIT)} == {(before, ("g0",))}
    assert isinstance(results["g0"].error, BrokerError)
    assert results["g0"].error.name == "NOT_COORDINATOR"
    assert isinstance(results["g1"].error, MissingAnswerError)


async def test_only_the_coordinator_that_is_named_is_asked_to_delete_offsets() -> None:
    """It described the group, with its members' subscriptions; its successor would delete what was committed since."""
    async with FakeCluster(groups={"g0"}) as fake, client(fake) as admin:
        before = fake.coordinator("g0")
        fake.moved = {"g0": 3 - before}
        with pytest.raises(BrokerError) as refused:
            await admin.delete_consumer_group_offsets("g0", [TopicPartition("t", 0)], coordinator=before)
        assert refused.value.name == "NOT_COORDINATOR"
        assert {sent.broker_id for sent in fake.requests(OFFSET_DELETE)} == {before}
        assert fake.requests(FIND_COORDINATOR) == []
        await admin.delete_consumer_group_offsets("g0", [TopicPartition("t", 0)], coordinator=3 - before)


WIDE = [TopicPartition("w" * 200, number) for number in range(6_000)]


async def test_offsets_that_are_too_many_for_a_batch_are_deleted_in_slices() -> None:
    asked: list[int] = []

    def note(broker_id: int, version: int, request: Any) -> None:
        asked.append(sum(len(topic.partitions) for topic in request.topics))

    async with FakeCluster(groups={"g0"}) as fake, client(fake) as admin:
        fake.control(OFFSET_DELETE, note)
        await admin.delete_consumer_group_offsets("g0", WIDE)
        assert sum(asked) == len(WIDE)
        assert max(asked) * len(WIDE[0].topic) <= BUDGET_BYTES
        asked.clear()
        await admin.delete_consumer_group_offsets("g0", WIDE[:100])
        assert asked == [100]


async def test_what_a_later_slice_does_not_delete_is_named_and_the_others_are_done() -> None:
    async with FakeCluster(groups={"g0"}) as fake, client(fake) as admin:
        before = fake.coordinator("g0")

        def move(broker_id: int, version: int, request: Any) -> None:
            if len(fake.requests(OFFSET_DELETE)) == 2:
                fake.moved = {"g0": 3 - before}

        fake.control(OFFSET_DELETE, move)
        with pytest.raises(PartitionsFailedError) as failed:
            await admin.delete_consumer_group_offsets("g0", WIDE, coordinator=before)
        assert len(fake.requests(OFFSET_DELETE)) == 2, "nothing after the first failure of all"
        left = failed.value.partition_errors
        assert WIDE[0] not in left
        assert WIDE[-1] in left
        assert {error.name for error in left.values() if isinstance(error, BrokerError)} == {"NOT_COORDINATOR"}
        with pytest.raises(BrokerError, match="NOT_COORDINATOR"):
            await admin.delete_consumer_group_offsets("g0", WIDE, coordinator=before)


async def test_a_lost_answer_to_a_later_slice_is_an_unknown_outcome() -> None:
    async with FakeCluster(groups={"g0"}) as fake, client(fake) as admin:
        fake.control(OFFSET_DELETE, lambda *_: Cut if len(fake.requests(OFFSET_DELETE)) == 2 else None)
        with pytest.raises(OutcomeUnknownError):
            await admin.delete_consumer_group_offsets("g0", WIDE)
        assert len(fake.requests(OFFSET_DELETE)) == 2


async def test_to_delete_nothing_is_to_ask_nothing() -> None:
    async with FakeCluster(groups={"g0"}) as fake, client(fake) as admin:
        assert dict(await admin.delete_consumer_groups([])) == {}
        assert (fake.requests(LIST_GROUPS), fake.requests(DELETE_GROUPS)) == ([], [])


COMMIT = {TopicPartition("t", 0): OffsetAndMetadata(7)}
MANY = [f"group-{number:03d}" for number in range(200)]


async def test_commits_of_many_groups_go_over_several_connections_and_those_of_few_over_one() -> None:
    async with FakeCluster() as fake, client(fake, commit_connections=4) as admin:
        for groups, connections in ((5, 2), (200, 8)):
            results = await admin.alter_consumer_group_offsets(dict.fromkeys(MANY[:groups], COMMIT))
            results.raise_for_errors()
            assert len(fake.requests(API_VERSIONS)) == fake.open_connections == connections


async def test_connections_that_a_broker_refuses_are_not_missed() -> None:
    async with FakeCluster() as fake, client(fake) as admin:
        (await admin.describe_consumer_groups(MANY)).raise_for_errors()  # connects to both
        fake.control(API_VERSIONS, lambda *_: Cut)
        (await admin.alter_consumer_group_offsets(dict.fromkeys(MANY, COMMIT))).raise_for_errors()
        assert fake.open_connections == 2


async def test_a_broker_has_as_many_commits_to_work_on_as_there_are_connections() -> None:
    """It works on one request of a connection at a time."""
    at_once: Counter[int] = Counter()
    most: Counter[int] = Counter()
    async with FakeCluster() as fake, client(fake, commit_connections=4) as admin:

        async def slowly(broker_id: int, version: int, request: Any) -> None:
            at_once[broker_id] += 1
            most[broker_id] = max(most[broker_id], at_once[broker_id])
            await asyncio.sleep(0.01)
            at_once[broker_id] -= 1

        fake.control(OFFSET_COMMIT, slowly)
        (await admin.alter_consumer_group_offsets(dict.fromkeys(MANY, COMMIT))).raise_for_errors()
    assert most == {1: 4, 2: 4}


async def test_all_connections_have_as_many_commits_to_carry() -> None:
    """A broker is done when the busiest connection is."""
    carried: Counter[tuple[int, Any]] = Counter()
    async with FakeCluster() as fake, client(fake, commit_connections=4) as admin:
        fake.control(OFFSET_COMMIT, lambda broker_id, *_: carried.update([(broker_id, asyncio.current_task())]))
        (await admin.alter_consumer_group_offsets(dict.fromkeys(MANY, COMMIT))).raise_for_errors()
    for broker_id in (1, 2):
        of_broker = [commits for (broker, _), commits in carried.items() if broker == broker_id]
        assert len(of_broker) == 4
        assert max(of_broker) - min(of_broker) <= 1


@pytest.mark.parametrize("then", [40, 39, 1], ids=lambda groups: f"then with {groups} groups")
async def test_a_group_goes_over_the_same_connection_each_time(then: int) -> None:
    """What was given up may still be worked on; another connection could overtake it."""
    async with FakeCluster({1: MODERN}) as fake, client(fake, commit_connections=4, request_timeout=0.3) as admin:
        seen: list[int] = []

        async def first_is_slow(broker_id: int, version: int, request: Any) -> None:
            offset = request.topics[0].partitions[0].committed_offset
            if request.group_id == MANY[0]:
                await asyncio.sleep(0.6 if offset == 1 else 0)
                seen.append(offset)

        fake.control(OFFSET_COMMIT, first_is_slow)
        failed = []
        for offset, groups in ((1, 40), (2, then)):
            of_group = {TopicPartition("t", 0): OffsetAndMetadata(offset)}
            failed.append((await admin.alter_consumer_group_offsets(dict.fromkeys(MANY[:groups], of_group))).failed)
        assert MANY[0] in failed[0]
        await asyncio.sleep(0.5)
        assert seen == [1, 2]


async def test_slices_of_a_group_follow_its_commit_that_was_given_up() -> None:
    async with FakeCluster({1: MODERN}) as fake, client(fake, commit_connections=4, request_timeout=0.3) as admin:
        seen: list[int] = []

        async def first_is_slow(broker_id: int, version: int, request: Any) -> None:
            offset = request.topics[0].partitions[0].committed_offset
            if request.group_id == last:
                await asyncio.sleep(0.6 if offset == 1 else 0)
                seen.append(offset)

        # The one that goes over another connection than the broker's own.
        last = max(MANY[:40], key=lambda group_id: offsets_partitions([group_id], 50)[0])
        fake.control(OFFSET_COMMIT, first_is_slow)
        one = {TopicPartition("t", 0): OffsetAndMetadata(1)}
        assert last in (await admin.alter_consumer_group_offsets(dict.fromkeys(MANY[:40], one))).failed
        assert admin._calls._turns[last] > 0
        big = {TopicPartition("t", number): OffsetAndMetadata(2, "m" * 3_000) for number in range(400)}
        await admin.alter_consumer_group_offsets({last: big})
        await asyncio.sleep(0.5)
        assert seen[0] == 1
        assert set(seen[1:]) <= {2}


async def test_commits_of_one_partition_of_the_offsets_topic_follow_one_another() -> None:
    async with FakeCluster({1: MODERN}) as fake, client(fake, commit_connections=1) as admin:
        results = await admin.alter_consumer_group_offsets(dict.fromkeys(MANY, COMMIT))
        assert list(results) == MANY, "the results come in the order of the groups"
        sent = [offsets_partitions([sent.keys[0]], 50)[0] for sent in fake.requests(OFFSET_COMMIT)]
        assert sent == sorted(sent)
        assert len(set(sent)) > 20


@pytest.mark.parametrize("partition", [0, 1])
async def test_a_partition_that_is_left_out_or_refused_is_named_also_where_columns_are_committed(
    partition: int,
) -> None:
    wanted = {TopicPartition("t", number): OffsetAndMetadata(7) for number in (0, 1)}
    columns: Any = GroupOffsets.from_mapping("g", dict(wanted))
    answered = TopicPartition("t", 1 - partition)
    async with FakeCluster({1: MODERN}) as fake, client(fake) as admin:
        fake.control(
            OFFSET_COMMIT, lambda _, version, request: answers.offset_commit(version, {answered: ErrorCode.none})
        )
        results = await admin.alter_consumer_group_offsets({"g": columns})
    error = results["g"].error
    assert isinstance(error, PartitionsFailedError)
    assert set(error.partition_errors) == {TopicPartition("t", partition)}


@pytest.mark.parametrize(("where", "offset"), [(("t", 0), -1), (("t", 0), 2**63), (("t", -1), 0), (("t", 2**31), 0)])
async def test_what_cannot_be_committed_is_refused_by_name_before_anything_is_sent(
    where: tuple[str, int], offset: int
) -> None:
    async with FakeCluster() as fake, client(fake) as admin:
        with pytest.raises(ConfigurationError, match=r"offsets\['g'\]|partition"):
            await admin.alter_consumer_group_offsets({"g": {TopicPartition(*where): OffsetAndMetadata(offset)}})
        none: Any = GroupOffsets.from_mapping("g", {TopicPartition("t", 0): None})
        with pytest.raises(ConfigurationError, match="OffsetAndMetadata"):
            await admin.alter_consumer_group_offsets({"g": none})
        assert fake.requests(OFFSET_COMMIT) == []


@pytest.mark.parametrize(("types", "deleted"), [(["consumer"], False), (["share"], False), (["classic"], True)])
async def test_a_group_whose_type_no_broker_reports_is_deleted_only_as_a_classic_one(
    types: list[str], deleted: bool
) -> None:
    """Brokers that report no type have classic groups."""
    async with FakeCluster({1: OLD, 2: OLD}, groups={"g0"}) as fake, client(fake) as admin:
        result = (await admin.delete_consumer_groups(["g0"], types=types))["g0"]
    assert result.ok == deleted
    assert fake.groups == (set() if deleted else {"g0"})
    assert deleted or isinstance(result.error, UnexpectedGroupTypeError)
    assert deleted or "'g0' is a classic group; add its type" in str(result.error), "'unknown' would change nothing"


TOO_LARGE = (ErrorCode.invalid_commit_offset_size, ErrorCode.unknown_server_error)
PARTITIONS = [TopicPartition("t", number) for number in range(400)]
BIG = dict.fromkeys(PARTITIONS, OffsetAndMetadata(7, "m" * 3_000))
"""1.2 MB: three slices."""

Said = Callable[[int, dict[TopicPartition, int]], Any]
"""(number of the request, its offsets) -> an error code for all of them, or what a ``Control`` returns."""


class Commits:
    """A broker's OffsetCommit: what it was asked to commit, and what it has."""

    def __init__(self, fake: FakeCluster, say: Said) -> None:
        self.sizes: list[int] = []
        self.committed: dict[TopicPartition, int] = {}
        self._say = say
        fake.control(OFFSET_COMMIT, self._answer)

    def _answer(self, _: int, version: int, request: Any) -> Any:
        asked = {
            TopicPartition(topic.name, each.partition_index): each.committed_offset
            for topic in request.topics
            for each in topic.partitions
        }
        self.sizes.append(len(asked))
        said = self._say(len(self.sizes), asked)
        if said is Drop:
            return said
        codes: Any = said if isinstance(said, dict) else dict.fromkeys(asked, said)
        self.committed |= {where: asked[where] for where, code in codes.items() if code is ErrorCode.none}
        return answers.offset_commit(version, codes)


async def commit(
    say: Said, offsets: dict[TopicPartition, OffsetAndMetadata] = BIG
) -> tuple[GroupResult[None], Commits]:
    async with FakeCluster({1: MODERN}) as fake, client(fake, request_timeout=0.3) as admin:
        commits = Commits(fake, say)
        results = await admin.alter_consumer_group_offsets({"small": {}, "big": offsets})
        assert list(results) == ["small", "big"]
        return results["big"], commits


@pytest.mark.parametrize("error", TOO_LARGE)
async def test_what_is_more_than_a_batch_is_committed_in_slices(error: ErrorCode) -> None:
    """Real brokers refuse 300 offsets with 4,000 bytes of metadata each, so nobody could have restored them."""
    result, commits = await commit(lambda _, asked: error if len(asked) > 300 else ErrorCode.none)
    assert result.ok
    assert commits.committed == dict.fromkeys(PARTITIONS, 7)
    assert len(commits.sizes) == 3


async def test_a_partition_that_is_refused_is_named_and_the_others_are_committed() -> None:
    refused = {PARTITIONS[0], PARTITIONS[-1]}
    unknown, none = ErrorCode.unknown_topic_or_partition, ErrorCode.none
    result, commits = await commit(lambda _, asked: {where: unknown if where in refused else none for where in asked})
    assert isinstance(result.error, PartitionsFailedError)
    assert set(result.error.partition_errors) == refused
    assert set(commits.committed) == set(PARTITIONS) - refused


async def test_a_group_that_somebody_joins_meanwhile_names_all_that_was_not_committed() -> None:
    result, commits = await commit(lambda number, _: ErrorCode.none if number == 1 else ErrorCode.unknown_member_id)
    assert isinstance(result.error, PartitionsFailedError)
    assert set(result.error.partition_errors) == set(PARTITIONS) - set(commits.committed)
    assert "UNKNOWN_MEMBER_ID" in str(result.error)


async def test_an_answer_that_is_lost_leaves_the_group_unknown_and_nothing_more_is_sent() -> None:
    result, commits = await commit(lambda number, _: ErrorCode.none if number == 1 else Drop)
    assert isinstance(result.error, OutcomeUnknownError)
    assert len(commits.sizes) == 2


async def test_a_group_of_which_nothing_was_sent_says_so_and_one_of_which_some_was_names_the_rest() -> None:
    async with FakeCluster({1: MODERN}) as fake, client(fake) as admin:
        results = await admin.alter_consumer_group_offsets({"big": BIG}, send_within=0)
        assert isinstance(results["big"].error, NotSentError)
        assert fake.requests(OFFSET_COMMIT) == []


async def test_a_refusal_of_the_coordinator_after_the_first_slice_leaves_no_offset_unnamed() -> None:
    code = ErrorCode.group_authorization_failed
    result, commits = await commit(lambda number, _: ErrorCode.none if number == 1 else code)
    assert isinstance(result.error, PartitionsFailedError)
    assert len(result.error.partition_errors) + len(commits.committed) == len(PARTITIONS)
    assert {type(each) for each in result.error.partition_errors.values()} == {BrokerError}
