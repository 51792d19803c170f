"""A partition that a broker lists without a commit counts for no lag, as in the sums of ``GroupLag``."""

from __future__ import annotations

import pytest

from airflow_kafka_groups.kafka.admin.lag import GroupLag, LogBounds
from airflow_kafka_groups.kafka.models import GroupOffsets, ListedOffset, TopicPartition
from airflow_kafka_groups.kafka.models.offsets import TopicOffsets
from airflow_kafka_groups.triggers.conditions import lagging

ENDS = {TopicPartition("t", number): ListedOffset(10) for number in (0, 1)}
STARTS = dict.fromkeys(ENDS, ListedOffset(0))


def lag_of(*committed: int) -> GroupLag:
    rows = [(number, offset, -1, "") for number, offset in enumerate(committed)]
    return GroupLag(GroupOffsets("a", (TopicOffsets.of_rows("t", rows),)), LogBounds(STARTS, ENDS))


@pytest.mark.parametrize(
    ("committed", "why"),
    [
        ((10, -1), None),
        ((9, -1), "lag 1, must be at most 0"),
        ((11, -1), "t[0]: the lag is unknown (beyond_end)"),
        ((-1, -1), "has no committed offsets"),
        ((), "has no committed offsets"),
    ],
)
def test_only_partitions_with_a_commit_count(committed: tuple[int, ...], why: str | None) -> None:
    assert lagging(lag_of(*committed), total=0, partition=None) == why
