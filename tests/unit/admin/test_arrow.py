"""Offsets of many groups as one table."""

from __future__ import annotations

from airflow_kafka_groups.admin import to_arrow
from airflow_kafka_groups.models import GroupOffsets, OffsetAndMetadata, TopicPartition


def test_every_group_topic_and_partition_is_a_row() -> None:
    groups = [
        GroupOffsets.from_mapping(
            "a", {TopicPartition("t", 0): OffsetAndMetadata(2**40, "mëta", 7), TopicPartition("t", 1): None}
        ),
        GroupOffsets.from_mapping("none", {}),
        GroupOffsets.from_mapping("b", {TopicPartition("u", 3): OffsetAndMetadata(0)}),
    ]
    names = ("group_id", "topic", "partition", "committed_offset", "leader_epoch", "metadata")
    rows = [tuple(row[name] for name in names) for row in to_arrow(groups).to_pylist()]
    assert rows == [("a", "t", 0, 2**40, 7, "mëta"), ("a", "t", 1, None, None, ""), ("b", "u", 3, 0, None, "")]


def test_no_groups_are_an_empty_table() -> None:
    assert to_arrow([]).num_rows == 0
