"""Lag with its four flags."""

from __future__ import annotations

import pytest

from airflow_kafka_groups.admin.lag import LagFlag, PartitionLag, group_lag, partition_lag
from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.models import GroupOffsets, ListedOffset, OffsetAndMetadata, TopicPartition


@pytest.mark.parametrize(
    ("committed", "start", "end", "lag"),
    [
        (5, 0, 10, PartitionLag(LagFlag.OK, 5)),
        (10, 0, 10, PartitionLag(LagFlag.OK, 0)),
        (0, 0, 0, PartitionLag(LagFlag.OK, 0)),
        (3, 3, 10, PartitionLag(LagFlag.OK, 7)),
        (2, 3, 10, PartitionLag(LagFlag.DATA_LOST, 7, lost=1)),
        (0, 10, 10, PartitionLag(LagFlag.DATA_LOST, 0, lost=10)),
        (11, 0, 10, PartitionLag(LagFlag.RECREATED)),
        (None, 0, 10, PartitionLag(LagFlag.NO_COMMIT)),
        (-1, 0, 10, PartitionLag(LagFlag.NO_COMMIT)),
        (5, None, 10, PartitionLag(LagFlag.UNKNOWN)),
        (5, 0, None, PartitionLag(LagFlag.UNKNOWN)),
        (5, 0, -1, PartitionLag(LagFlag.UNKNOWN)),
    ],
)
def test_lag_is_never_negative_and_never_guessed(
    committed: int | None, start: int | None, end: int | None, lag: PartitionLag
) -> None:
    ends = [None if offset is None else ListedOffset(offset) for offset in (start, end)]
    assert partition_lag(committed, *ends) == lag


def test_a_sum_with_an_unknown_part_is_unknown_and_one_without_a_commit_is_not() -> None:
    parts = [TopicPartition("t", number) for number in range(3)]
    committed = {parts[0]: OffsetAndMetadata(4), parts[1]: None}
    ends: dict[TopicPartition, ListedOffset | KafkaGroupsError] = {
        parts[0]: ListedOffset(10),
        parts[1]: ListedOffset(99),
        parts[2]: KafkaGroupsError("gone"),
    }
    starts = dict.fromkeys(parts, ListedOffset(0))
    known = group_lag(GroupOffsets.from_mapping("g", committed), starts, ends)
    assert known.messages == 6
    unknown = group_lag(GroupOffsets.from_mapping("g", committed | {parts[2]: OffsetAndMetadata(1)}), starts, ends)
    assert unknown.messages is None
    assert unknown.partitions[parts[2]].flag is LagFlag.UNKNOWN
