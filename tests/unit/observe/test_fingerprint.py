import hashlib
import json
from itertools import accumulate, groupby
from random import Random

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_kafka_groups.kafka.models import GroupOffsets, OffsetAndMetadata, TopicOffsets, TopicPartition
from airflow_kafka_groups.observe.fingerprint import committed_partitions, fingerprint, fingerprints

keys = st.builds(TopicPartition, st.text(min_size=1, max_size=8), st.integers(0, 9))
values = st.builds(OffsetAndMetadata, st.integers(0, 2**62), st.text(max_size=5), st.none() | st.integers(0, 2**31 - 1))
maps = st.dictionaries(keys, values, max_size=12)


def of(offsets: dict[TopicPartition, OffsetAndMetadata | None]) -> str:
    return fingerprint(GroupOffsets.from_mapping("g", offsets))


def test_it_is_what_the_contract_says() -> None:
    offsets = {
        TopicPartition("b", 0): OffsetAndMetadata(5, 'say "hi"', None),
        TopicPartition("a", 10): OffsetAndMetadata(7, "", 2),
        TopicPartition("a", 9): OffsetAndMetadata(6, "é", 0),
    }
    lines = 'a\t9\t6\t0\t"\\u00e9"\na\t10\t7\t2\t""\nb\t0\t5\t-1\t"say \\"hi\\""\n'
    assert of(dict(offsets)) == hashlib.sha256(lines.encode()).hexdigest()


@given(maps, st.randoms())
def test_the_order_of_the_answer_does_not_matter(
    offsets: dict[TopicPartition, OffsetAndMetadata], random: object
) -> None:
    shuffled = list(offsets.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert of(dict(shuffled)) == of(dict(offsets))


@given(st.lists(st.integers(0, 2000), min_size=1, max_size=8, unique=True), st.randoms())
@example(list(range(300)), Random(1))  # more partitions than those whose order is remembered
def test_plain_offsets_of_one_topic_are_sorted_by_partition(partitions: list[int], random: Random) -> None:
    random.shuffle(partitions)
    rows = [("t", partition, partition % 7, -1, "") for partition in partitions]
    for _ in range(2):  # in an order that is new, and in one that has been seen
        assert fingerprint(group(rows)) == as_first_written(rows)


@given(maps, keys, values)
def test_any_change_changes_it(
    offsets: dict[TopicPartition, OffsetAndMetadata], key: TopicPartition, value: OffsetAndMetadata
) -> None:
    changed = {**offsets, key: value}
    assert (of(dict(changed)) == of(dict(offsets))) == (changed == offsets)


@given(maps, keys)
def test_a_partition_without_a_commit_does_not_count(
    offsets: dict[TopicPartition, OffsetAndMetadata], key: TopicPartition
) -> None:
    without = {k: v for k, v in offsets.items() if k != key}
    assert of({**without, key: None}) == of(dict(without))
    assert committed_partitions(GroupOffsets.from_mapping("g", {**without, key: None})) == len(without)


Row = tuple[str, int, int, int, str]
rows_of_a_group = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "a-1", "ü", "topic with\ttab", "100%d"]),
        st.integers(0, 4) | st.just(2**31 - 1),
        st.integers(-1, 3) | st.just(2**63 - 1),
        st.integers(-2, 3) | st.just(2**31 - 1),
        st.just("") | st.text(max_size=3) | st.sampled_from(['"', "\\", "\n", "𝄞"]),
    ),
    min_size=1,
    max_size=8,
)


def as_first_written(rows: list[Row]) -> str:
    """Compute a fingerprint as the first versions did: one string for each partition."""
    digest = hashlib.sha256()
    for topic, partition, offset, epoch, metadata in sorted((t, p, o, max(e, -1), m) for t, p, o, e, m in rows):
        if offset >= 0:
            digest.update(f"{topic}\t{partition}\t{offset}\t{epoch}\t{json.dumps(metadata)}\n".encode())
    return digest.hexdigest()


def batch(rows: list[Row]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [()] * 5
    return pa.record_batch(
        {
            "topic": pa.array(columns[0], pa.string()),
            "partition": pa.array(columns[1], pa.int32()),
            "committed_offset": pa.array([None if offset == -1 else offset for offset in columns[2]], pa.int64()),
            "leader_epoch": pa.array([None if epoch == -1 else epoch for epoch in columns[3]], pa.int32()),
            "metadata": pa.array([text or None for text in columns[4]], pa.string()),
        }
    )


def group(rows: list[Row]) -> GroupOffsets:
    """Return one answer's columns: a topic named again makes further columns."""
    topics = []
    for (topic, _), of_topic in groupby(rows, key=lambda row: (row[0], bool(row[4]))):
        topics.append(TopicOffsets.of_rows(topic, [row[1:] for row in of_topic]))
    return GroupOffsets("g", tuple(topics))


@given(st.lists(rows_of_a_group, max_size=6))
@example([[("a", 1, 5, -1, "x"), ("a", 1, 5, -1, ""), ("a", 1, 4, -1, "")]])  # a partition named three times
@example([[("a", 0, 5, -2, "x"), ("a", 0, 5, -1, "")]])  # an epoch that is none either
@example([[("b", 2**31 - 1, 1, 0, ""), ("a", 0, 1, 0, "")]] * 3)
def test_columns_rows_and_the_first_versions_agree(groups: list[list[Row]]) -> None:
    ends = list(accumulate(len(rows) for rows in groups))
    digests, partitions = fingerprints(batch([row for rows in groups for row in rows]), ends)
    assert digests == [as_first_written(rows) for rows in groups] == [fingerprint(group(rows)) for rows in groups]
    assert partitions == [committed_partitions(group(rows)) for rows in groups]


@pytest.mark.parametrize("column", ["topic", "partition"])
def test_an_offset_of_no_partition_is_refused(column: str) -> None:
    rows = batch([("a", 0, 5, 0, "")])
    place = rows.schema.get_field_index(column)
    nothing = pa.nulls(1, rows.schema.field(place).type)
    with pytest.raises(ValueError, match="lacks its topic or partition"):
        fingerprints(rows.set_column(place, column, nothing), [1])
    without = rows.set_column(2, "committed_offset", pa.nulls(1, pa.int64()))
    assert fingerprints(without.set_column(place, column, nothing), [1]) == ([hashlib.sha256().hexdigest()], [0])
