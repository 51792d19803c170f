"""Each handler: what it allows, how much it asks at once, and what it makes brokers write."""

import importlib
import inspect
import pkgutil
from datetime import timedelta
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.exceptions import (
    BrokerError,
    ConnectionFailedError,
    MissingAnswerError,
    PartitionOffsetsError,
    RemoteProtocolError,
)
from airflow_kafka_groups.kafka.admin import handlers
from airflow_kafka_groups.kafka.admin.engine.handler import AdminHandler
from airflow_kafka_groups.kafka.admin.handlers.change_groups import (
    AlterGroupOffsetsHandler,
    Commits,
    RemoveMembersHandler,
    commit_bytes,
    commit_slices,
)
from airflow_kafka_groups.kafka.admin.handlers.delete_groups import (
    BUDGET_BYTES,
    MAX_BATCH_BYTES,
    DeleteGroupsHandler,
    TombstoneSizes,
    slices_of,
)
from airflow_kafka_groups.kafka.admin.handlers.find_coordinator import FindCoordinatorHandler
from airflow_kafka_groups.kafka.admin.handlers.groups import DescribeRetentionHandler, ListGroupsHandler
from airflow_kafka_groups.kafka.admin.handlers.list_group_offsets import ListGroupOffsetsHandler
from airflow_kafka_groups.kafka.admin.handlers.list_offsets import FetchTailsHandler
from airflow_kafka_groups.kafka.cluster.routing import offsets_partitions
from airflow_kafka_groups.kafka.models import (
    Broker,
    GroupOffsets,
    MemberToRemove,
    OffsetAndMetadata,
    ShareGroupOffsets,
    TopicPartition,
)
from airflow_kafka_groups.kafka.protocol.answers import (
    NO_THROTTLE,
    FetchedTail,
    KeyedAnswer,
    LeaveAnswer,
)
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from airflow_kafka_groups.ledger.outcomes import Outcome, of_deletion
from tests.fakes import answers

READS = {
    "DescribeRetentionHandler",
    "DescribeGroupsHandler",
    "FetchTailsHandler",
    "FindCoordinatorHandler",
    "FindLeadersHandler",
    "ListGroupOffsetsHandler",
    "ListGroupsHandler",
    "ListOffsetsHandler",
    "ListShareOffsetsHandler",
}
"""The handlers whose APIs change nothing. A new one is either named here or marked as changing groups."""

HANDLERS = sorted(
    {
        one
        for module in pkgutil.iter_modules(handlers.__path__)
        for one in vars(importlib.import_module(f"{handlers.__name__}.{module.name}")).values()
        if isinstance(one, type) and issubclass(one, AdminHandler) and not inspect.isabstract(one)
    }
    | {DescribeRetentionHandler},
    key=lambda one: one.__name__,
)


@pytest.mark.safety
@pytest.mark.parametrize("handler", HANDLERS, ids=lambda one: one.__name__)
def test_every_handler_that_does_not_only_read_asks_the_policy_and_is_never_sent_again(handler: Any) -> None:
    reads = handler.__name__ in READS
    assert (handler.changes_groups, handler.resend_after_loss) == (not reads, reads)


def test_there_are_handlers_of_both_kinds() -> None:
    names = {handler.__name__ for handler in HANDLERS}
    assert names > READS
    assert "DeleteGroupsHandler" in names - READS


def test_only_unstable_offsets_and_listings_have_a_limit_of_tries() -> None:
    lost = ConnectionFailedError("b1:9092", "connection lost")
    unstable = PartitionOffsetsError("g", {TopicPartition("t", 0): lost}, GroupOffsets("g"))
    assert ListGroupsHandler().max_tries(lost) == 5
    assert ListGroupOffsetsHandler({}).max_tries(unstable) == 8
    assert ListGroupOffsetsHandler({}).max_tries(lost) is None
    assert DeleteGroupsHandler().max_tries(lost) is None
    assert AlterGroupOffsetsHandler({}).max_tries(lost) is None
    assert AlterGroupOffsetsHandler({}, gives_up=True).max_tries(lost) == 3, "who asks no other broker reads again"
    assert AlterGroupOffsetsHandler({}, gives_up=True).max_tries(unstable) is None


@pytest.mark.parametrize(
    ("node", "host", "found"), [(0, "b0", True), (7, "b7", True), (-1, "", False), (-1, "b1", False), (1, "", False)]
)
def test_a_coordinator_has_a_number_and_an_address(node: int, host: str, found: bool) -> None:
    broker = Broker(broker_id=node, host=host, port=9092)
    answer = KeyedAnswer(timedelta(), {"g": broker}, ())
    result = FindCoordinatorHandler().parse(3, ["g"], 6, answer)
    if found:
        assert (result.completed, result.failed) == ({"g": broker}, {})
    else:
        assert result.completed == {}
        assert isinstance(result.failed["g"], RemoteProtocolError)


TOO_MUCH = ErrorCode.unknown_server_error


def test_a_group_that_was_too_much_fails_with_the_brokers_error() -> None:
    """Of several, the engine asks again in halves (see the driver's own tests)."""
    codes = {"a": TOO_MUCH, "b": ErrorCode.none, "c": TOO_MUCH, "e": ErrorCode.non_empty_group}
    result = DeleteGroupsHandler().parse(3, list(codes), 2, answers.decoded(answers.delete_groups(2, codes)))
    assert set(result.completed) == {"b"}
    assert result.failed_together(list(codes)) == ["a", "c"]
    error = result.failed["a"]
    assert isinstance(error, BrokerError)
    assert error.code == TOO_MUCH


@pytest.mark.safety
@pytest.mark.parametrize("code", [ErrorCode.non_empty_group, ErrorCode.group_authorization_failed, TOO_MUCH])
def test_a_group_that_is_said_to_be_deleted_and_not_deleted_is_of_unknown_outcome(code: ErrorCode) -> None:
    """A clear refusal would be on record, and the group may be gone."""
    answer = KeyedAnswer(NO_THROTTLE, dict.fromkeys("ab"), [("a", code, None), ("c", code, None), ("c", code, None)])
    result = DeleteGroupsHandler().parse(3, ["a", "b", "c"], 2, answer)
    assert of_deletion("a", result.failed["a"]).outcome is Outcome.UNKNOWN
    assert isinstance(result.failed["a"], RemoteProtocolError)
    assert ("b" in result.failed, "b" in result.completed) == (False, True)
    assert isinstance(result.failed.get("c"), BrokerError | None)


@pytest.mark.safety
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_code_that_nobody_knows_leaves_a_deletion_of_unknown_outcome(version: int) -> None:
    """Kafka 4.4 has more codes than this client: the group may be gone, and the others of the request are known."""
    codes = {"a": ErrorCode(134), "b": ErrorCode.none, "c": ErrorCode.non_empty_group}
    answer = answers.decoded(answers.delete_groups(version, codes))
    result = DeleteGroupsHandler().parse(3, list(codes), version, answer)
    assert "UNKNOWN_ERROR_CODE (134)" in str(result.failed["a"])
    assert of_deletion("a", result.failed["a"]).outcome is Outcome.UNKNOWN
    assert set(result.completed) == {"b"}


def offsets_of(group_id: str, count: int, topic: str = "t" * 30) -> GroupOffsets:
    values = {TopicPartition(topic, partition): OffsetAndMetadata(1) for partition in range(count)}
    return GroupOffsets.from_mapping(group_id, values)


def test_what_failed_in_the_field_does_not_fit_and_what_passed_is_not_cut_to_crumbs() -> None:
    """120 groups with 200 offsets each (60-character names, one partition) failed; a third of them is half a batch."""
    groups = {f"group-{i:014d}": offsets_of(f"group-{i:014d}", 200, "t" * 40) for i in range(120)}
    sizes = TombstoneSizes(groups)
    total = sum(sizes.size(group_id) for group_id in groups)
    assert total > MAX_BATCH_BYTES
    assert 20 < sizes.budget // (total // 120) < 60


def test_a_group_is_weighed_by_its_offsets_where_they_are_known_and_guessed_where_not() -> None:
    sizes = TombstoneSizes({"small": offsets_of("small", 1), "big": offsets_of("big", 20_000)})
    assert sizes.size("small") < sizes.size("not-read") < sizes.size("big")


def test_the_start_offsets_of_a_share_group_are_in_another_topic() -> None:
    starts = ShareGroupOffsets("many", offsets_of("many", 20_000).topics)
    assert TombstoneSizes({"many": starts}).size("many") < BUDGET_BYTES


@given(
    st.lists(st.text(max_size=20), min_size=1, max_size=30, unique=True),
    st.integers(1, 5),
    st.integers(1, 40_000),
    st.booleans(),
)
def test_as_many_fit_as_no_partition_gets_more_than_the_budget_of(
    group_ids: list[str], partitions: int, budget: int, some_known: bool
) -> None:
    known = {group_ids[-1]: offsets_of(group_ids[-1], 100)} if some_known else {}
    places = {group_id: offsets_partitions([group_id], partitions)[0] for group_id in group_ids}
    sizes = TombstoneSizes(known, places, budget)
    fitting = sizes.fit(group_ids)

    def heaviest(count: int) -> int:
        filled = dict.fromkeys(range(partitions), 0)
        for group_id in group_ids[:count]:
            filled[places[group_id]] += sizes.size(group_id)
        return max(filled.values())

    assert fitting == 1 or heaviest(fitting) <= budget
    assert fitting == len(group_ids) or heaviest(fitting + 1) > budget


@given(st.integers(0, 300), st.integers(100, 3000))
def test_slices_hold_every_partition_once_and_each_fits(count: int, budget: int) -> None:
    offsets = offsets_of("g", count)
    slices = slices_of("g", offsets, budget)
    assert [partition for part in slices for partition in part] == list(offsets)
    assert all(part for part in slices)
    assert all(len(part) == 1 or len(part) * 55 <= budget for part in slices)


def commits_of(count: int, metadata: str = "", topic: str = "t" * 40) -> Commits:
    values = {TopicPartition(topic, partition): OffsetAndMetadata(partition, metadata) for partition in range(count)}
    return cast("Commits", GroupOffsets.from_mapping("g", values))


def test_what_failed_on_a_broker_is_more_than_a_batch_and_what_groups_usually_have_is_not() -> None:
    assert commit_bytes("g", commits_of(300, "m" * 4_000)) > MAX_BATCH_BYTES
    assert commit_bytes("g" * 60, commits_of(10_000)) > MAX_BATCH_BYTES
    assert commit_bytes("g" * 60, commits_of(2_000)) < BUDGET_BYTES


@given(
    st.dictionaries(
        st.tuples(st.text(max_size=9), st.integers(0, 99)), st.tuples(st.integers(0, 9), st.text(max_size=300))
    ),
    st.integers(1, 2_000),
)
def test_slices_have_each_offset_once_in_its_order_and_none_is_too_large(
    rows: dict[tuple[str, int], tuple[int, str]], budget: int
) -> None:
    values = {TopicPartition(*where): OffsetAndMetadata(offset, text, 4) for where, (offset, text) in rows.items()}
    columns = cast("Commits", GroupOffsets.from_mapping("g", values))
    slices = commit_slices("g", columns, budget)
    assert [item for part in slices for item in part.items()] == list(columns.items())
    assert all(commit_bytes("g", part) <= budget or len(part) == 1 for part in slices)


READ, SECRET, MOVED = (TopicPartition(topic, 0) for topic in ("read", "secret", "moved"))


def test_a_partition_that_cannot_be_read_is_asked_once() -> None:
    tail, codes = FetchedTail(17, 10), (ErrorCode.topic_authorization_failed, ErrorCode.not_leader_or_follower)
    failed = [(where, code, None) for where, code in zip((SECRET, MOVED), codes, strict=True)]
    handler = FetchTailsHandler({READ: 10, SECRET: 1, MOVED: 2})
    found = handler.parse(1, [READ, SECRET, MOVED], 12, KeyedAnswer(timedelta(), {READ: tail}, failed))
    assert found.completed == {READ: tail}
    assert "secret[0]" in str(found.failed[SECRET])
    assert set(found.failed) == {SECRET, MOVED}
    assert not found.retry
    assert not found.unmapped


MEMBERS = [MemberToRemove("m", "i"), MemberToRemove("n"), MemberToRemove("o")]


def test_each_member_of_leave_group_has_its_own_end() -> None:
    codes = ((MEMBERS[0], ErrorCode.fenced_instance_id), (MEMBERS[1], ErrorCode.none))
    answer = LeaveAnswer(ErrorCode.none, members=codes)
    errors = RemoveMembersHandler({"g": MEMBERS}).parse(3, ["g"], 5, answer).completed["g"]
    assert isinstance(errors[MEMBERS[0]], BrokerError)
    assert "FENCED_INSTANCE_ID" in str(errors[MEMBERS[0]])
    assert errors[MEMBERS[1]] is None
    assert isinstance(errors[MEMBERS[2]], MissingAnswerError), "left out is not removed"


@pytest.mark.parametrize("version", [3, 5])
@pytest.mark.parametrize(
    ("code", "place"),
    [
        (ErrorCode.not_coordinator, "unmapped"),
        (ErrorCode.coordinator_load_in_progress, "retry"),
        (ErrorCode.group_authorization_failed, "failed"),
    ],
)
def test_an_error_of_the_group_is_none_of_its_members(version: int, code: ErrorCode, place: str) -> None:
    result = RemoveMembersHandler({"g": MEMBERS[1:2]}).parse(3, ["g"], version, LeaveAnswer(code))
    assert list(getattr(result, place)) == ["g"]
    assert result.completed == {}
