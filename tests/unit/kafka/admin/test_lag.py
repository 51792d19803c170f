"""Lag with its four flags."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.kafka.admin.lag import (
    GroupLag,
    LagFlag,
    LogBounds,
    PartitionLag,
    partition_lag,
    partitions_of,
)
from airflow_kafka_groups.kafka.models import GroupOffsets, ListedOffset, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.kafka.protocol.answers import FetchedTail

SMALL = st.integers(-1, 5)
KNOWN = st.builds(ListedOffset, SMALL)
MAYBE = st.one_of(KNOWN, KNOWN, KNOWN, st.none(), st.just(KafkaGroupsError("gone")))


@pytest.mark.parametrize(
    ("committed", "start", "end", "lag"),
    [
        (5, 0, 10, PartitionLag(LagFlag.OK, 5)),
        (10, 0, 10, PartitionLag(LagFlag.OK, 0)),
        (0, 0, 0, PartitionLag(LagFlag.OK, 0)),
        (3, 3, 10, PartitionLag(LagFlag.OK, 7)),
        (2, 3, 10, PartitionLag(LagFlag.DATA_LOST, 7, lost=1)),
        (0, 10, 10, PartitionLag(LagFlag.DATA_LOST, 0, lost=10)),
        (4, 12, 10, PartitionLag(LagFlag.DATA_LOST, 0, lost=6)),  # retention was at work between the two answers
        (11, 0, 10, PartitionLag(LagFlag.BEYOND_END)),
        (11, 12, 10, PartitionLag(LagFlag.BEYOND_END)),
        (None, 0, 10, PartitionLag(LagFlag.NO_COMMIT)),
        (None, None, None, PartitionLag(LagFlag.NO_COMMIT)),
        (5, None, 10, PartitionLag(LagFlag.UNKNOWN)),
        (5, 0, None, PartitionLag(LagFlag.UNKNOWN)),
        (5, 0, -1, PartitionLag(LagFlag.UNKNOWN)),
        (5, -1, 10, PartitionLag(LagFlag.UNKNOWN)),
    ],
)
def test_lag_is_never_negative_and_never_guessed(
    committed: int | None, start: int | None, end: int | None, lag: PartitionLag
) -> None:
    key = TopicPartition("t", 0)
    starts, ends = ({} if offset is None else {key: ListedOffset(offset)} for offset in (start, end))
    offsets = GroupOffsets.from_mapping("g", {key: None if committed is None else OffsetAndMetadata(committed)})
    assert GroupLag(offsets, LogBounds(starts, ends)).partitions == {key: lag}


def test_a_negative_offset_is_no_commit() -> None:
    assert partition_lag(-1, (0, 10)) == PartitionLag(LagFlag.NO_COMMIT)


def test_a_sum_with_an_unknown_part_is_unknown_and_one_without_a_commit_is_not() -> None:
    parts = [TopicPartition("t", number) for number in range(3)]
    committed = {parts[0]: OffsetAndMetadata(4), parts[1]: None}
    ends: dict[TopicPartition, ListedOffset | KafkaGroupsError] = {
        parts[0]: ListedOffset(10),
        parts[1]: ListedOffset(99),
        parts[2]: KafkaGroupsError("gone"),
    }
    bounds = LogBounds(dict.fromkeys(parts, ListedOffset(0)), ends)
    known = GroupLag(GroupOffsets.from_mapping("g", committed), bounds)
    assert (known.group_id, known.messages, known.lost) == ("g", 6, 0)
    unknown = GroupLag(GroupOffsets.from_mapping("g", committed | {parts[2]: OffsetAndMetadata(1)}), bounds)
    assert (unknown.messages, unknown.lost) == (None, None)
    assert unknown.partitions[parts[2]].flag is LagFlag.UNKNOWN


def test_the_lag_of_a_group_with_one_commit_beyond_the_end_is_unknown() -> None:
    keys = [TopicPartition("t", 0), TopicPartition("u", 0)]
    bounds = LogBounds(dict.fromkeys(keys, ListedOffset(0)), dict(zip(keys, map(ListedOffset, (10, 4)), strict=True)))
    lag = GroupLag(GroupOffsets.from_mapping("g", dict.fromkeys(keys, OffsetAndMetadata(5))), bounds)
    assert (lag.messages, lag.lost) == (None, None)


def test_records_that_were_removed_unread_are_lost_and_no_messages() -> None:
    key = TopicPartition("t", 0)
    bounds = LogBounds({key: ListedOffset(7)}, {key: ListedOffset(10)})
    lag = GroupLag(GroupOffsets.from_mapping("g", {key: OffsetAndMetadata(5)}), bounds)
    assert (lag.messages, lag.lost) == (3, 2)


@given(
    st.dictionaries(st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 2)), st.tuples(SMALL, MAYBE, MAYBE))
)
def test_the_sums_of_the_columns_are_those_of_the_partitions(
    rows: dict[TopicPartition, tuple[int, ListedOffset | None, ListedOffset | None]],
) -> None:
    committed = {key: OffsetAndMetadata(row[0]) if row[0] >= 0 else None for key, row in rows.items()}
    starts, ends = ({key: row[at] for key, row in rows.items() if row[at] is not None} for at in (1, 2))
    lag = GroupLag(GroupOffsets.from_mapping("g", committed), LogBounds(starts, ends))  # type: ignore[arg-type]
    counted = [found for found in lag.partitions.values() if found.flag is not LagFlag.NO_COMMIT]
    numbers = [found.messages for found in counted if found.messages is not None]
    assert all(number >= 0 for number in numbers)
    if len(numbers) < len(counted):
        assert (lag.messages, lag.lost) == (None, None)
    else:
        assert (lag.messages, lag.lost) == (sum(numbers), sum(found.lost for found in counted))


def test_partitions_are_asked_for_once_however_many_groups_read_them() -> None:
    reads = {"a": [("t", 1), ("u", 0)], "b": [("t", 1), ("t", 0)]}
    groups = [
        GroupOffsets.from_mapping(group_id, {TopicPartition(*key): OffsetAndMetadata(1) for key in keys})
        for group_id, keys in reads.items()
    ]
    assert partitions_of(groups) == [("t", 0), ("t", 1), ("u", 0)]


def test_what_is_left_without_a_record_is_read() -> None:
    """The markers of transactions, and aborted records: a group that had read everything lagged for ever."""
    key = TopicPartition("t", 0)
    starts, ends = {key: ListedOffset(3)}, {key: ListedOffset(17)}
    groups = {at: GroupOffsets.from_mapping(f"g{at}", {key: OffsetAndMetadata(at)}) for at in (0, 8, 10, 16, 17, 18)}
    bounds = LogBounds(starts, ends)
    looked_at = bounds.nearly_read([groups[10], groups[16], groups[17], groups[18]])
    assert looked_at == {key: 10}
    assert bounds.nearly_read([groups[0]]) == {key: 3}, "what is gone cannot be fetched"

    def lag(reached: int, readable: int) -> dict[int, int | None]:
        bounds = LogBounds(starts, ends)
        bounds.end_readable(looked_at, {key: FetchedTail(reached, readable)})
        found = {at: GroupLag(offsets, bounds) for at, offsets in groups.items()}
        assert all(each.partitions[key].messages == each.messages for each in found.values())
        assert (found[0].lost, found[8].lost) == (3, 0)
        return {at: each.messages for at, each in found.items()}

    unknown = {0: 14, 8: 9, 10: 7, 16: 1, 17: 0, 18: None}
    assert lag(16, 0) == unknown, "it does not reach the end"
    assert lag(20, 20) == unknown, "records arrived meanwhile"
    assert lag(17, 0) == {0: 7, 8: 2, 10: 0, 16: 0, 17: 0, 18: None}, "nobody looked at what is before 10"
    assert lag(17, 16) == {0: 13, 8: 8, 10: 6, 16: 0, 17: 0, 18: None}


def test_only_what_is_nearly_read_is_looked_at() -> None:
    parts = [TopicPartition("t", number) for number in range(1_001)]
    bounds = LogBounds(dict.fromkeys(parts, ListedOffset(0)), dict.fromkeys(parts, ListedOffset(1_001)))
    far = GroupOffsets.from_mapping("far", dict.fromkeys(parts, OffsetAndMetadata(0)))
    near = GroupOffsets.from_mapping("near", dict.fromkeys(parts, OffsetAndMetadata(1)))
    assert bounds.nearly_read([far]) == {}
    assert bounds.nearly_read([far, near]) == dict.fromkeys(parts[:1_000], 1)
