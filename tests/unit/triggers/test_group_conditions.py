"""Truth tables of the conditions that describe groups, and of those that remember."""

from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.admin.lag import GroupLag, LogBounds
from airflow_kafka_groups.kafka.models import GroupOffsets, GroupState, ListedOffset, TopicOffsets, TopicPartition
from airflow_kafka_groups.triggers.clients import shared_client
from airflow_kafka_groups.triggers.conditions import EndReached, GroupsEmpty, GroupsExist, NoProgress, lagging
from airflow_kafka_groups.triggers.events import GroupsEventTrigger
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


@pytest.mark.parametrize("unknown", [broker_error("UNKNOWN_TOPIC_OR_PARTITION"), ListedOffset(-1)])
async def test_an_end_is_fixed_when_the_first_commits_are_seen(admin: FakeAdmin, unknown: Any) -> None:
    admin.groups = {"a": FakeGroup({})}
    condition = EndReached(group_ids=("a",))
    assert not await reached(condition, admin)
    admin.commit("a", *T0, 5)
    admin.ends[T0] = unknown
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
    await condition.check(admin)  # the fake
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


async def test_groups_are_not_stale_for_a_time_in_which_the_connection_was_wrong(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody looked then, as while a cluster is away."""
    now = [100.0]
    trigger = GroupsEventTrigger(event="stale", seconds=60)
    watch = replace(trigger._watch(), clock=lambda: now[0])
    admin.groups = {"a": FakeGroup({T0: 5})}
    async with shared_client("kafka_groups_default") as shared:
        assert (await trigger._poll(shared, watch)) is not None

        async def refuse(_: Any) -> Any:
            raise ConfigurationError("port", "x", "must be a number")

        with monkeypatch.context() as patched:
            patched.setattr(shared, "run", refuse)
            assert await trigger._poll(shared, watch) is None
        now[0] += 60
        found = await trigger._poll(shared, watch)
    assert found is not None
    assert not found.matching
