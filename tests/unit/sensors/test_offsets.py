"""Truth tables: what counts as reached, and that doubt never does."""

import time
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.models import ListedOffset, TopicPartition
from airflow_kafka_groups.sensors.offsets import ListGroupOffsetsSensor
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def offsets(**arguments: Any) -> bool:
    return ListGroupOffsetsSensor(task_id="t", **arguments).poke({})


@pytest.mark.parametrize(
    ("committed", "target", "reached"), [(5, 5, True), (6, 5, True), (4, 5, False), (None, 0, False)]
)
def test_targets_are_reached_at_or_past_them(
    admin: FakeAdmin, committed: int | None, target: int, reached: bool
) -> None:
    admin.groups["a"] = FakeGroup({T1: 1} if committed is None else {T0: committed, T1: 1})
    assert offsets(targets={"a": {"t": {0: target}}}) is reached
    assert offsets(targets=f'{{"a": {{"t": {{"0": {target}}}}}}}') is reached


def test_targets_of_all_or_of_any_group(admin: FakeAdmin) -> None:
    admin.groups = {"a": FakeGroup({T0: 5}), "b": FakeGroup({T0: 1})}
    targets = {"a": {"t": {"0": 5}}, "b": {"t": {"0": 5}}}
    assert not offsets(targets=targets)
    assert offsets(targets=targets, require="any")
    admin.errors["a"] = broker_error("NOT_COORDINATOR")
    assert not offsets(targets=targets, require="any")


@pytest.mark.parametrize(
    ("group", "limits", "reached"),
    [
        ({T0: 10, T1: 10}, {"max_total_lag": 0}, True),
        ({T0: 8, T1: 9}, {"max_total_lag": 3}, True),
        ({T0: 8, T1: 9}, {"max_total_lag": 2}, False),
        ({T0: 8, T1: 9}, {"max_partition_lag": 2}, True),
        ({T0: 8, T1: 9}, {"max_partition_lag": "1"}, False),
        ({T0: 8, T1: 9}, {"max_total_lag": 9, "max_partition_lag": 1}, False),
        ({}, {"max_total_lag": 1000}, False),
        ({T0: 11}, {"max_total_lag": 1000}, False),
    ],
)
def test_lag_is_low_enough(admin: FakeAdmin, group: Any, limits: dict[str, Any], reached: bool) -> None:
    admin.groups["a"] = FakeGroup(group)
    assert offsets(group_ids=["a"], **limits) is reached


@pytest.mark.parametrize(
    ("committed", "young", "reached"),
    [
        (10, -1, True),  # nothing is left to read
        (9, -1, False),  # all that is left is old
        (9, 9, True),
        (9, 10, False),
        (9, 3, True),
        (9, broker_error("UNKNOWN_TOPIC_OR_PARTITION"), False),
    ],
)
def test_lag_in_seconds_is_where_the_young_records_begin(
    admin: FakeAdmin, committed: int, young: Any, reached: bool
) -> None:
    admin.groups["a"] = FakeGroup({T0: committed, T1: 10})
    admin.by_time[T0] = ListedOffset(young) if isinstance(young, int) else young
    before = time.time()
    assert offsets(group_ids=["a"], max_lag_seconds="60") is reached
    assert before - 61 < admin.times[0] / 1000 < time.time() - 59
    assert not offsets(group_ids=["a"], max_lag_seconds=60, max_total_lag=0) or committed == 10


@pytest.mark.parametrize("end", [broker_error("UNKNOWN_TOPIC_OR_PARTITION"), ListedOffset(-1)])
def test_an_end_that_cannot_be_read_is_not_low_lag(admin: FakeAdmin, end: Any) -> None:
    admin.groups["a"] = FakeGroup({T0: 10})
    admin.ends[T0] = end
    assert not offsets(group_ids=["a"], max_total_lag=1000)


def test_records_that_are_gone_unread_are_no_lag(admin: FakeAdmin) -> None:
    """Nobody can read them: a wait until the group has caught up would never end."""
    admin.groups["a"] = FakeGroup({T0: 2})
    admin.ends[T0] = (9, 10)
    assert not offsets(group_ids=["a"], max_total_lag=0)
    assert offsets(group_ids=["a"], max_total_lag=1)
    admin.ends[T0] = (10, 10)
    assert offsets(group_ids=["a"], max_total_lag=0, max_lag_seconds=1)


def test_lag_of_all_or_of_any_group(admin: FakeAdmin) -> None:
    admin.groups = {"a": FakeGroup({T0: 10}), "b": FakeGroup({T0: 0})}
    assert not offsets(group_ids=["a", "b", "gone"], max_total_lag=1)
    assert offsets(group_ids=["a", "b", "gone"], max_total_lag=1, require="any")
    assert not offsets(group_ids=["b", "gone"], max_total_lag=1, require="any")


def test_a_poll_is_one_call_of_each_kind_however_many_groups(admin: FakeAdmin) -> None:
    admin.groups = {f"g{i}": FakeGroup({T0: 10}) for i in range(500)}
    assert offsets(group_ids=list(admin.groups), max_total_lag=0)
    assert admin.call_names == ["offsets", "list_offsets", "list_offsets"]
    assert offsets(group_ids=list(admin.groups), max_lag_seconds=1)
    assert len(admin.calls) == 3 + 4


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"targets": {"a": {"t": {0: 1}}}, "group_ids": ["a"]},
        {"targets": {"a": {"t": {0: 1}}}, "max_total_lag": 1},
        {"targets": {"a": {"t": {0: 1}}}, "max_lag_seconds": 1},
        {"group_ids": ["a"], "max_lag_seconds": 1, "to_end": True},
        {"group_ids": ["a"]},
        {"group_ids": ["a"], "max_total_lag": 1, "require": "most"},
    ],
)
def test_arguments_that_exclude_each_other_are_refused_when_the_dag_is_parsed(arguments: Any) -> None:
    with pytest.raises(ConfigurationError):
        ListGroupOffsetsSensor(task_id="t", **arguments)


@pytest.mark.parametrize("arguments", [{"targets": {"a": {"t": {0: 8}}}}, {"group_ids": ["a"], "to_end": True}])
def test_who_has_committed_past_the_end_has_reached_nothing(admin: FakeAdmin, arguments: dict[str, Any]) -> None:
    admin.groups = {"a": FakeGroup({TopicPartition("t", 0): 1000})}  # of the topic before it was deleted and recreated
    admin.ends[TopicPartition("t", 0)] = ListedOffset(10)
    sensor = ListGroupOffsetsSensor(task_id="t", deferrable=False, **arguments)
    assert not sensor.poke({})
    admin.groups = {"a": FakeGroup({TopicPartition("t", 0): 10})}
    assert sensor.poke({})
