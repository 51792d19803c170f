"""Offsets in columns behave as the mapping they stand for."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.models import GroupOffsets, GroupState, GroupType, OffsetAndMetadata, TopicPartition

PARTITIONS = st.builds(TopicPartition, st.sampled_from(["a", "b", "ünï"]), st.integers(0, 2**31 - 1))
VALUES = st.none() | st.builds(
    OffsetAndMetadata, st.integers(0, 2**63 - 1), st.text(max_size=5), st.none() | st.integers(0, 2**31 - 1)
)


@given(st.dictionaries(PARTITIONS, VALUES, max_size=20))
def test_columns_are_the_mapping_they_were_made_of(offsets: dict[TopicPartition, OffsetAndMetadata | None]) -> None:
    columns = GroupOffsets.from_mapping("g", offsets)
    assert dict(columns) == offsets
    assert len(columns) == len(offsets)
    assert columns == offsets
    assert columns == GroupOffsets.from_mapping("g", offsets)
    assert pickle.loads(pickle.dumps(columns)) == columns
    assert copy.deepcopy(columns) == columns


def test_a_partition_that_was_not_asked_for_is_not_in_it() -> None:
    columns = GroupOffsets.from_mapping("g", {TopicPartition("t", 0): None})
    assert columns[TopicPartition("t", 0)] is None
    assert TopicPartition("t", 1) not in columns
    with pytest.raises(KeyError):
        columns[TopicPartition("u", 0)]


def test_the_same_offsets_of_another_group_are_not_equal() -> None:
    offsets = {TopicPartition("t", 0): OffsetAndMetadata(1)}
    assert GroupOffsets.from_mapping("g", offsets) != GroupOffsets.from_mapping("h", offsets)


@pytest.mark.parametrize("text", ["", None, "empty?", "Brandnew"])
def test_a_state_or_type_of_tomorrow_is_unknown_and_never_empty(text: str | None) -> None:
    assert GroupState.parse(text) is GroupState.UNKNOWN
    assert GroupType.parse(text) is GroupType.UNKNOWN


@pytest.mark.parametrize("state", GroupState)
def test_states_are_read_whatever_their_case(state: GroupState) -> None:
    assert GroupState.parse(state.value.upper()) is state
