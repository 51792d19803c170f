"""Truth tables of the conditions that describe groups, and of those that remember."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_groups.kafka.models import GroupState, ListedOffset, TopicPartition
from airflow_kafka_groups.triggers.conditions import EndReached, GroupsEmpty, GroupsExist, NoProgress
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


async def reached(condition: Any, admin: FakeAdmin) -> bool:
    return bool((await condition.check(admin)).reached)


@pytest.mark.parametrize("state", list(GroupState))
async def test_what_exists_and_what_is_empty(admin: FakeAdmin, state: GroupState) -> None:
    admin.groups = {"a": FakeGroup(state=state)}
    assert await reached(GroupsExist(group_ids=("a",)), admin) is (state not in (GroupState.DEAD, GroupState.UNKNOWN))
    assert await reached(GroupsEmpty(group_ids=("a",)), admin) is (state is GroupState.EMPTY)


async def test_an_empty_group_with_a_member_is_not_empty(admin: FakeAdmin) -> None:
    admin.groups = {"a": FakeGroup(members=1)}
    assert not await reached(GroupsEmpty(group_ids=("a",)), admin)


async def test_all_or_any_and_doubt_is_neither(admin: FakeAdmin) -> None:
    admin.groups = {"a": FakeGroup(), "b": FakeGroup()}
    admin.errors["b"] = broker_error("GROUP_AUTHORIZATION_FAILED")
    for kind in (GroupsExist, GroupsEmpty):
        assert not await reached(kind(group_ids=("a", "b")), admin)
        assert await reached(kind(group_ids=("a", "b"), any_group=True), admin)
        assert not await reached(kind(group_ids=("b", "gone"), any_group=True), admin)


async def test_the_end_is_the_one_of_the_beginning(admin: FakeAdmin) -> None:
    admin.groups = {"a": FakeGroup({T0: 5, T1: 10})}
    condition = EndReached(group_ids=("a",))
    assert not await reached(condition, admin)
    admin.log = (0, 1000)
    admin.commit("a", *T0, 10)
    assert await reached(condition, admin)
    assert condition.targets == {"a": {T0: 10, T1: 10}}


async def test_an_end_is_fixed_when_the_first_commits_are_seen(admin: FakeAdmin) -> None:
    admin.groups = {"a": FakeGroup({})}
    condition = EndReached(group_ids=("a",))
    assert not await reached(condition, admin)
    admin.commit("a", *T0, 5)
    admin.ends[T0] = broker_error("UNKNOWN_TOPIC_OR_PARTITION")
    assert not await reached(condition, admin)
    assert condition.targets == {}
    admin.ends[T0] = ListedOffset(5)
    assert await reached(condition, admin)


@pytest.fixture
def stalled() -> tuple[NoProgress, list[float]]:
    now = [100.0]
    return NoProgress(group_ids=("a",), seconds=60, clock=lambda: now[0]), now


async def test_standing_still_takes_the_whole_time(admin: FakeAdmin, stalled: tuple[NoProgress, list[float]]) -> None:
    condition, now = stalled
    admin.groups = {"a": FakeGroup({T0: 5})}
    assert not await reached(condition, admin)
    now[0] += 59
    assert not await reached(condition, admin)
    now[0] += 1
    assert await reached(condition, admin)


async def test_movement_and_gaps_begin_the_time_again(
    admin: FakeAdmin, stalled: tuple[NoProgress, list[float]]
) -> None:
    condition, now = stalled
    admin.groups = {"a": FakeGroup({T0: 5})}
    await condition.check(admin)  # type: ignore[arg-type]  # the fake
    now[0] += 59
    admin.commit("a", *T0, 6)
    assert not await reached(condition, admin)
    now[0] += 59
    admin.errors["a"] = broker_error("NOT_COORDINATOR")
    assert not await reached(condition, admin)
    admin.errors = {}
    now[0] += 59
    assert not await reached(condition, admin)
    now[0] += 60
    assert await reached(condition, admin)


@pytest.mark.parametrize(
    ("offsets", "end", "only_with_lag", "expected"),
    [
        ({T0: 10}, ListedOffset(10), True, False),
        ({T0: 10}, ListedOffset(10), False, True),
        ({T0: 9}, ListedOffset(10), True, True),
        ({T0: 9}, broker_error("UNKNOWN_TOPIC_OR_PARTITION"), True, False),
        ({T0: 11}, ListedOffset(10), True, False),
        ({}, ListedOffset(10), True, False),
        ({}, ListedOffset(10), False, False),
    ],
)
async def test_who_has_read_everything_does_not_stand_still(
    admin: FakeAdmin, offsets: Any, end: Any, only_with_lag: bool, expected: bool
) -> None:
    admin.groups = {"a": FakeGroup(offsets)}
    admin.ends[T0] = end
    condition = NoProgress(group_ids=("a",), seconds=0, only_with_lag=only_with_lag)
    assert await reached(condition, admin) is expected
