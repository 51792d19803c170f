from __future__ import annotations

import pytest

from tests.lanes.lane import Lane, choose
from tests.lanes.schedule import Schedule


def lane(name: str, *needs: str, load: float = 1.0) -> Lane:
    return Lane(name=name, commands=(("true",),), needs=needs, load=load)


def started(schedule: Schedule) -> list[str]:
    names = []
    while (one := schedule.start_next()) is not None:
        names.append(one.name)
    return names


def test_lanes_start_in_the_listed_order_as_long_as_their_loads_fit() -> None:
    schedule = Schedule([lane("a"), lane("b", load=2), lane("c"), lane("d")], capacity=2)
    assert started(schedule) == ["a", "c"]
    schedule.end("a", succeeded=True)
    assert started(schedule) == ["d"]
    schedule.end("c", succeeded=True)
    assert started(schedule) == []
    schedule.end("d", succeeded=True)
    assert started(schedule) == ["b"]
    assert not schedule.is_finished
    schedule.end("b", succeeded=True)
    assert schedule.is_finished


def test_a_lane_that_is_larger_than_the_capacity_runs_alone() -> None:
    schedule = Schedule([lane("large", load=9), lane("small")], capacity=2)
    assert started(schedule) == ["large"]
    schedule.end("large", succeeded=True)
    assert started(schedule) == ["small"]


def test_a_lane_waits_for_all_that_it_needs() -> None:
    schedule = Schedule([lane("tests", "venv", "jars"), lane("venv"), lane("jars")], capacity=9)
    assert started(schedule) == ["venv", "jars"]
    assert schedule.end("venv", succeeded=True) == []
    assert started(schedule) == []
    schedule.end("jars", succeeded=True)
    assert started(schedule) == ["tests"]


def test_what_needs_a_failed_lane_is_given_up_and_the_rest_runs() -> None:
    schedule = Schedule([lane("a", "b"), lane("b", "c"), lane("c"), lane("d")], capacity=1)
    assert started(schedule) == ["c"]
    assert [one.name for one in schedule.end("c", succeeded=False)] == ["b", "a"]
    assert started(schedule) == ["d"]
    schedule.end("d", succeeded=True)
    assert schedule.is_finished


def test_named_lanes_come_with_those_that_they_need() -> None:
    lanes = [lane("setup"), lane("jars"), lane("brokers", "setup", "jars"), lane("lint", "setup")]
    assert [one.name for one in choose(lanes, ["lint"])] == ["setup", "lint"]
    assert [one.name for one in choose(lanes, ["lint", "brokers"])] == ["setup", "jars", "brokers", "lint"]
    with pytest.raises(ValueError, match="no lane 'lnt'; there are setup, jars, brokers, lint"):
        choose(lanes, ["lnt"])
