from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.maintenance.fingerprint import committed_partitions, fingerprint
from airflow_kafka_groups.models import GroupOffsets, OffsetAndMetadata, TopicPartition

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
