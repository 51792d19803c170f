"""The verbs of results."""

from __future__ import annotations

import pytest

from airflow_kafka_groups.exceptions import GroupsFailedError, IncompleteListingError, KafkaGroupsError
from airflow_kafka_groups.kafka import GroupListings, GroupResult, GroupResults
from airflow_kafka_groups.kafka.models import GroupListing, GroupState, GroupType, TopicPartition
from airflow_kafka_groups.kafka.protocol.api_versions import METADATA
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode, broker_error

ERROR = KafkaGroupsError("no")


def listing(group_id: str, coordinator: int = 1) -> GroupListing:
    return GroupListing(
        group_id=group_id, protocol_type="", state=GroupState.EMPTY, type=GroupType.CLASSIC, coordinator=coordinator
    )


def test_results_tell_apart_what_succeeded_and_what_failed() -> None:
    results = GroupResults([GroupResult("b", 2), GroupResult("a", None, ERROR), GroupResult("c", None)])
    assert results.succeeded == {"b": 2, "c": None}
    assert results.failed == {"a": ERROR}
    assert [result.group_id for result in results.sorted()] == ["a", "b", "c"]
    assert repr(results) == "<GroupResults [3 groups | 2 succeeded | 1 failed]>"
    assert results["b"].ok
    with pytest.raises(KafkaGroupsError, match="no"):
        results["a"].unwrap()


def test_errors_are_raised_only_when_asked_for_and_name_the_first_groups() -> None:
    GroupResults([GroupResult("a", 1)]).raise_for_errors()
    results: GroupResults[int] = GroupResults(GroupResult(f"g{i}", None, ERROR) for i in range(5))
    with pytest.raises(GroupsFailedError, match=r"5 of 5 failed: 'g0': no; .*; and 2 more") as raised:
        results.raise_for_errors()
    assert len(raised.value.errors) == 5


def test_an_error_of_groups_with_the_longest_ids_is_of_a_bearable_length() -> None:
    errors = {f"{i}{'x' * 32_766}": KafkaGroupsError(f"group '{i}{'x' * 32_766}': no") for i in range(5)}
    error = GroupsFailedError(errors, 5)
    assert len(str(error)) < 4_000
    assert str(error).endswith("': no; and 2 more"), "what happened is at the end"
    assert error.errors == errors, "the ids are complete here"


def test_a_group_listed_twice_is_there_once() -> None:
    assert len(GroupListings([listing("a"), listing("b"), listing("a", 2)], {})) == 2


@pytest.mark.safety
@pytest.mark.parametrize("state", [GroupState.STABLE, GroupState.UNKNOWN])
def test_a_group_that_one_broker_lists_as_empty_and_another_does_not_is_not_empty(state: GroupState) -> None:
    """A coordinator that was replaced may not know it yet, and lists what it saw last."""
    old, new = listing("a", 1), listing("a", 2)._replace(state=state)
    for both in ([old, new], [new, old], [old, new, old]):
        assert GroupListings(iter([*both, listing("b")]), {})["a"] == new


def test_a_listing_that_lacks_a_broker_is_not_taken_for_a_whole_one() -> None:
    short = GroupListings([listing("a")], {3: ERROR})
    assert not short.complete
    assert repr(short) == "<GroupListings [1 groups | 1 brokers missing]>"
    with pytest.raises(IncompleteListingError, match="broker 3: no"):
        short.require_complete()
    whole = GroupListings([], {})
    assert whole.require_complete() is whole


def test_a_listing_names_brokers_before_partitions() -> None:
    partitions = [TopicPartition("__consumer_offsets", number) for number in (10, 9)]
    leaderless = broker_error(ErrorCode.leader_not_available, METADATA)
    short = GroupListings([], {**dict.fromkeys(partitions, leaderless), 10: ERROR, 9: ERROR})
    assert list(short.errors) == [9, 10, *reversed(partitions)]
    with pytest.raises(IncompleteListingError) as raised:
        short.require_complete()
    assert str(raised.value) == (
        "groups may be missing; 2 broker(s) did not answer: broker 10: no; broker 9: no; "
        "2 partition(s) have no leader, so no broker lists their groups: __consumer_offsets-9, __consumer_offsets-10"
    )
