"""The groups of a listing: which are in scope, and how they are dealt out to tasks."""

from __future__ import annotations

import pickle

from pyspark.sql.datasource import EqualTo, Filter, StringStartsWith

from airflow_kafka_groups.kafka.models import BrokerId, GroupId, GroupListing, GroupState, GroupType
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.spark.source.reader import PushedFilters, cut, select


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
    return list(select(LISTINGS, GroupFilter(exclude=exclude), filters)["group_id"].to_pylist())


def test_patterns_and_conditions_on_every_column_of_a_group_must_hold() -> None:
    assert len(selected()) == len(LISTINGS)
    assert selected(EqualTo(("state",), "Stable")) == ["a-live"]
    assert selected(EqualTo(("protocol_type",), "connect"), EqualTo(("state",), "Empty")) == ["b-connect"]
    assert selected(EqualTo(("group_type",), "share")) == []
    assert selected(StringStartsWith(("group_id",), "a-l"), EqualTo(("state",), "Empty")) == []
    assert selected(StringStartsWith(("group_id",), "a-l")) == ["a-live"]
    assert selected(EqualTo(("protocol_type",), "consumer"), exclude=("a-?",)) == ["a-live"]


def test_each_group_is_in_one_part_with_what_is_known_of_it_and_brokers_take_turns() -> None:
    parts = cut(select(LISTINGS, GroupFilter(), PushedFilters()), 2)
    rows = [pickle.loads(pickle.dumps(part)).to_pylist() for part in parts]
    assert sorted((row for part in rows for row in part), key=lambda row: str(row["group_id"])) == [
        {
            "group_id": one.group_id,
            "group_type": "classic",
            "protocol_type": one.protocol_type,
            "state": one.state.value,
            "coordinator": int(one.coordinator),
        }
        for one in sorted(LISTINGS, key=lambda one: one.group_id)
    ]
    assert [{row["coordinator"] for row in part} for part in rows] == [{0}, {1}, {2}, {0}, {1}, {2}, {1}]
    assert all(1 <= len(part) <= 2 for part in parts)


def test_a_part_is_sent_without_the_groups_of_other_parts() -> None:
    groups = select([listing(f"{'long' * 50}-{number}", 1) for number in range(100)], GroupFilter(), PushedFilters())
    assert len(pickle.dumps(cut(groups, 10)[0])) < len(pickle.dumps(groups)) / 5


def test_no_groups_are_no_parts() -> None:
    assert cut(select([], GroupFilter(), PushedFilters()), 5) == []
