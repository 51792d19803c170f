"""Offsets in columns behave as the mapping they stand for."""

import copy
import pickle
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.kafka.models import (
    GroupOffsets,
    GroupState,
    GroupType,
    OffsetAndMetadata,
    PackedGroups,
    TopicPartition,
)

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


def test_packed_groups_are_a_mapping_of_offsets() -> None:
    row = struct.Struct(">iqi4x").pack
    topics = b"\x03" + b"\x02t\x03" + row(0, 7, -1) + row(4, 9, 2) + b"\x00" + b"\x03uv\x02" + row(1, 5, -1) + b"\x00"
    packed = PackedGroups({"g": topics + b"skipped", "none": b"\x01"})
    offsets = {
        TopicPartition("t", 0): OffsetAndMetadata(7),
        TopicPartition("t", 4): OffsetAndMetadata(9, leader_epoch=2),
        TopicPartition("uv", 1): OffsetAndMetadata(5),
    }
    assert packed["g"] == GroupOffsets.from_mapping("g", offsets)
    assert [(group.group_id, dict(group)) for group in packed.values()] == [("g", offsets), ("none", {})]
    assert packed["g"].topics[0].packed_rows == row(0, 7, -1) + row(4, 9, 2)
    assert (list(packed), len(packed), "other" in packed) == (["g", "none"], 2, False)
