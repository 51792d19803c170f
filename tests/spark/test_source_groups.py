"""The groups of a listing: which are in scope, and how they are dealt out to tasks."""

from __future__ import annotations

import pickle

from pyspark.sql.datasource import EqualTo, Filter, StringStartsWith

from airflow_kafka_groups.maintenance.patterns import GroupFilter
from airflow_kafka_groups.models import BrokerId, GroupId, GroupListing, GroupState, GroupType
from airflow_kafka_groups.spark.source.filters import PushedFilters
from airflow_kafka_groups.spark.source.groups import GroupKind, ListedGroups, in_turns, select


def listing(group_id: str, coordinator: int, state: str = "Empty", protocol_type: str = "consumer") -> GroupListing:
    return GroupListing(
        group_id=GroupId(group_id),
        protocol_type=protocol_type,
        state=GroupState.parse(state),
        type=GroupType.CLASSIC,
        coordinator=BrokerId(coordinator),
    )


LISTINGS = [
    *(listing(f"a-{number}", number % 3) for number in range(9)),
    listing("a-live", 1, "Stable"),
    listing("b-connect", 1, protocol_type="connect"),
]


def selected(*conditions: Filter, exclude: tuple[str, ...] = ()) -> list[str]:
    filters = PushedFilters()
    assert list(filters.take(conditions)) == []
    return list(select(LISTINGS, GroupFilter(exclude=exclude), filters).ids)


def test_patterns_and_conditions_on_every_column_of_a_group_must_hold() -> None:
    assert len(selected()) == len(LISTINGS)
    assert selected(EqualTo(("state",), "Stable")) == ["a-live"]
    assert selected(EqualTo(("protocol_type",), "connect"), EqualTo(("state",), "Empty")) == ["b-connect"]
    assert selected(EqualTo(("group_type",), "share")) == []
    assert selected(StringStartsWith(("group_id",), "a-l"), EqualTo(("state",), "Empty")) == []
    assert selected(StringStartsWith(("group_id",), "a-l")) == ["a-live"]
    assert selected(EqualTo(("protocol_type",), "consumer"), exclude=("a-?",)) == ["a-live"]


def test_each_group_is_in_one_part_with_what_is_known_of_it_and_brokers_take_turns() -> None:
    groups = select(LISTINGS, GroupFilter(), PushedFilters())
    parts = in_turns([list(of_one.cut(2)) for of_one in groups.by_coordinator()])
    parts = [pickle.loads(pickle.dumps(part)) for part in parts]
    known = {group_id: part.kinds[code] for part in parts for group_id, code in zip(part.ids, part.codes, strict=True)}
    assert known == {
        one.group_id: GroupKind("classic", one.protocol_type, one.state.value, int(one.coordinator)) for one in LISTINGS
    }
    assert sum(map(len, parts)) == len(LISTINGS)
    assert [{part.kinds[code].coordinator for code in part.codes} for part in parts] == [
        {0},
        {1},
        {2},
        {0},
        {1},
        {2},
        {1},
    ]
    assert all(1 <= len(part) <= 2 for part in parts)


def test_no_groups_are_no_parts() -> None:
    assert in_turns([]) == []
    assert list(ListedGroups().by_coordinator()) == []
    assert list(ListedGroups().cut(5)) == []
