"""How many groups go together: what brokers write in one go, and fewer while chunks take long."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_kafka_groups.change.deletion.pace import OFFSETS_AT_ONCE, Chunks
from airflow_kafka_groups.change.deletion.request import DeletionLimits
from airflow_kafka_groups.ledger.plan_rows import CommittedGroup


def chunks(partitions: Sequence[int], *, most: int = 1_000, **limits: float) -> Chunks:
    names = [f"g{number}" for number in range(len(partitions))]
    groups = [CommittedGroup(group_id=name, group_type="classic", protocol_type="", fingerprint="f") for name in names]
    entries = {
        name: CommittedGroup(group_id=name, group_type="classic", protocol_type="", partitions=count, fingerprint="f")
        for name, count in zip(names, partitions, strict=True)
    }
    return Chunks(groups, entries, DeletionLimits(chunk_size=most, max_read_age_seconds=16.0, **limits))


def sizes(cut: Chunks) -> list[int]:
    return [len(chunk) for chunk in iter(cut.take, [])]


def test_every_group_comes_once_and_in_order() -> None:
    cut = chunks([1] * 7, most=3)
    taken = [group.group_id for chunk in iter(cut.take, []) for group in chunk]
    assert taken == [f"g{number}" for number in range(7)]
    assert list(cut.take()) == []


def test_groups_with_many_offsets_go_in_smaller_chunks() -> None:
    half = OFFSETS_AT_ONCE // 2
    assert sizes(chunks([half, half, half, 1])) == [2, 2]
    assert sizes(chunks([10 * OFFSETS_AT_ONCE, 1, 1])) == [1, 2], "one that is too large goes alone"


def test_slow_chunks_are_followed_by_smaller_ones_and_quick_ones_by_larger_ones() -> None:
    cut = chunks([1] * 100, most=16)
    taken = [len(cut.take())]
    for seconds in (5.0, 5.0, 2.0, 0.5, 0.5, 0.5):
        cut.took(seconds)
        taken.append(len(cut.take()))
    assert taken == [16, 8, 4, 4, 8, 16, 16]


def test_a_chunk_has_one_group_at_least() -> None:
    cut = chunks([1] * 20, most=2)
    for _ in range(10):
        cut.took(100.0)
    assert len(cut.take()) == 1


def test_a_pace_limit_makes_small_chunks_so_that_pauses_stay_short() -> None:
    assert sizes(chunks([1] * 12, groups_per_second=1.0)) == [5, 5, 2]
    assert sizes(chunks([10] * 5, bytes_per_second=400.0)) == [2, 2, 1]
    assert sizes(chunks([1] * 3, groups_per_second=0.01)) == [1, 1, 1]
