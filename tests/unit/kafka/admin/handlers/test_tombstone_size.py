"""How much a deletion makes a broker write."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.kafka.admin.handlers.delete_groups import MAX_BATCH_BYTES, TombstoneSizes
from airflow_kafka_groups.kafka.cluster.routing import offsets_partitions
from airflow_kafka_groups.kafka.models import GroupOffsets, OffsetAndMetadata, TopicPartition


def offsets_of(group_id: str, count: int, topic: str = "t" * 30) -> GroupOffsets:
    values = {TopicPartition(topic, partition): OffsetAndMetadata(1) for partition in range(count)}
    return GroupOffsets.from_mapping(group_id, values)


def test_what_failed_in_the_field_does_not_fit_and_what_passed_is_not_cut_to_crumbs() -> None:
    """120 groups with 200 offsets each (60-character names, one partition) failed; a third of them is half a batch."""
    groups = {f"group-{i:014d}": offsets_of(f"group-{i:014d}", 200, "t" * 40) for i in range(120)}
    sizes = TombstoneSizes(groups, 1)
    total = sum(sizes.size(group_id) for group_id in groups)
    assert total > MAX_BATCH_BYTES
    assert 20 < sizes.budget // (total // 120) < 60


def test_a_group_is_weighed_by_its_offsets_where_they_are_known_and_guessed_where_not() -> None:
    sizes = TombstoneSizes({"small": offsets_of("small", 1), "big": offsets_of("big", 20_000)})
    assert sizes.size("small") < sizes.size("not-read") < sizes.size("big")
    assert sizes.fits("small")
    assert sizes.fits("not-read")
    assert not sizes.fits("big")
    assert sizes.without(["big"]).fits("big")


@given(
    st.lists(st.text(max_size=20), min_size=1, max_size=30, unique=True),
    st.integers(1, 5),
    st.integers(1, 40_000),
    st.booleans(),
    st.booleans(),
)
def test_as_many_fit_as_no_partition_gets_more_than_the_budget_of(
    group_ids: list[str], partitions: int, budget: int, some_known: bool, placed: bool
) -> None:
    known = {group_ids[-1]: offsets_of(group_ids[-1], 100)} if some_known else {}
    places = {group_id: offsets_partitions([group_id], partitions)[0] for group_id in group_ids}
    sizes = TombstoneSizes(known, partitions, budget, buckets=places if placed else {})
    fitting = sizes.fit(group_ids)

    def heaviest(count: int) -> int:
        filled = dict.fromkeys(range(partitions), 0)
        for group_id in group_ids[:count]:
            filled[places[group_id]] += sizes.size(group_id)
        return max(filled.values())

    assert fitting == 1 or heaviest(fitting) <= budget
    assert fitting == len(group_ids) or heaviest(fitting + 1) > budget


@given(st.integers(0, 300), st.integers(100, 3000))
def test_slices_hold_every_partition_once_and_each_fits(count: int, budget: int) -> None:
    offsets = offsets_of("g", count)
    sizes = TombstoneSizes({"g": offsets}, budget=budget)
    slices = sizes.slices(offsets)
    assert [partition for part in slices for partition in part] == list(offsets)
    assert all(part for part in slices)
    assert all(len(part) == 1 or len(part) * 55 <= budget for part in slices)
