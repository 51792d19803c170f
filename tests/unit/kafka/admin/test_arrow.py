"""Offsets of many groups as one table."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.kafka import to_arrow
from airflow_kafka_groups.kafka.admin.arrow import packed_rows
from airflow_kafka_groups.kafka.models import GroupOffsets, OffsetAndMetadata, TopicOffsets, TopicPartition

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
            tuple(
                topic if topic.metadata else TopicOffsets.packed(topic.topic, topic.packed_rows())
                for topic in group.topics
            ),
        )
        for group in made
    ]
    assert rows_of(packed) == expected


def test_a_topic_without_rows_has_none() -> None:
    full = TopicOffsets("t", array("i", [3]), array("q", [9]), array("i", [-1]))
    assert rows_of([GroupOffsets("g", (TopicOffsets.packed("e", b""), full))]) == [("g", "t", 3, 9, None, "")]


@given(st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(-1, 2**63 - 1), st.integers(-1, 2**31 - 1))))
def test_columns_become_rows_as_a_broker_sends_them(rows: list[tuple[int, int, int]]) -> None:
    partitions, offsets, epochs = (array(kind, [row[place] for row in rows]) for place, kind in enumerate("iqi"))
    made = packed_rows(partitions, offsets, epochs)
    assert made == TopicOffsets("t", partitions, offsets, epochs).packed_rows()
    assert list(TopicOffsets.packed("t", made).rows()) == [(*row, "") for row in rows]
