"""Results of each group, and their columns for Arrow."""

from array import array
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.exceptions import GroupsFailedError, IncompleteListingError, KafkaGroupsError
from airflow_kafka_groups.kafka import GroupListings, GroupResult, GroupResults, to_arrow
from airflow_kafka_groups.kafka.admin.arrow import packed_rows
from airflow_kafka_groups.kafka.models import (
    GroupListing,
    GroupOffsets,
    GroupState,
    GroupType,
    OffsetAndMetadata,
    TopicOffsets,
    TopicPartition,
)
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
    assert repr(short) == "<GroupListings [1 groups | 1 brokers or partitions missing]>"
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


COLUMNS = ("group_id", "topic", "partition", "committed_offset", "leader_epoch", "metadata")


def rows_of(groups: Iterable[GroupOffsets]) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in COLUMNS) for row in to_arrow(groups).to_pylist()]


def test_every_group_topic_and_partition_is_a_row() -> None:
    groups = [
        GroupOffsets.from_mapping(
            "a", {TopicPartition("t", 0): OffsetAndMetadata(2**40, "mëta", 7), TopicPartition("t", 1): None}
        ),
        GroupOffsets.from_mapping("none", {}),
        GroupOffsets.from_mapping("b", {TopicPartition("u", 3): OffsetAndMetadata(0)}),
    ]
    assert rows_of(groups) == [
        ("a", "t", 0, 2**40, 7, "mëta"),
        ("a", "t", 1, None, None, ""),
        ("b", "u", 3, 0, None, ""),
    ]


def test_no_groups_are_an_empty_table() -> None:
    assert to_arrow([]).num_rows == 0


@given(
    st.lists(
        st.dictionaries(
            st.builds(TopicPartition, st.sampled_from(("t", "u", "ü")), st.integers(0, 2**31 - 1)),
            st.none()
            | st.builds(
                OffsetAndMetadata,
                st.integers(0, 2**63 - 1),
                st.sampled_from(("", "", "", "mëta")),
                st.none() | st.integers(0, 2**31 - 1),
            ),
        ),
        max_size=5,
    )
)
def test_columns_hold_what_the_groups_hold_whether_packed_or_not(groups: list[dict[TopicPartition, Any]]) -> None:
    made = [GroupOffsets.from_mapping(f"g{number}", offsets) for number, offsets in enumerate(groups)]
    expected = [
        (group.group_id, topic.topic, partition, None if offset < 0 else offset, None if epoch < 0 else epoch, metadata)
        for group in made
        for topic in group.topics
        for partition, offset, epoch, metadata in topic.rows()
    ]
    assert rows_of(made) == expected
    packed = [
        GroupOffsets(
            group.group_id,
            tuple(topic if topic.metadata else TopicOffsets(topic.topic, topic.packed_rows) for topic in group.topics),
        )
        for group in made
    ]
    assert rows_of(packed) == expected


def test_a_topic_without_rows_has_none() -> None:
    full = TopicOffsets.of_rows("t", [(3, 9, -1, "")])
    assert rows_of([GroupOffsets("g", (TopicOffsets("e", b""), full))]) == [("g", "t", 3, 9, None, "")]


@given(st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(-1, 2**63 - 1), st.integers(-1, 2**31 - 1))))
def test_columns_become_rows_as_a_broker_sends_them(rows: list[tuple[int, int, int]]) -> None:
    partitions, offsets, epochs = (array(kind, [row[place] for row in rows]) for place, kind in enumerate("iqi"))
    made = packed_rows(partitions, offsets, epochs)
    assert made == TopicOffsets.of_rows("t", [(*row, "") for row in rows]).packed_rows
    assert list(TopicOffsets("t", made).rows()) == [(*row, "") for row in rows]
