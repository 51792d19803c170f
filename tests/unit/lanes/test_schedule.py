"""Which lanes run when, and what is said of them."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.lanes.lane import Lane, choose
from tests.lanes.schedule import Schedule
from tests.lanes.screen import counts, summary


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


LOG = """..F
FAILED tests/a.py::test_it - assert 4 == 5 in 3.0s
RERUN tests/a.py::test_flaky
=========== 1 failed, 40 passed, 2 skipped, 3 warnings, 1 rerun in 65.21s (0:01:05) ===========
7 passed, 1 error in 0.12s
"""


class Ended:
    seconds = 61.9

    def __init__(self, name: str, output: str) -> None:
        self.lane, self.output = Lane(name=name, commands=()), output


def test_tests_are_counted_by_what_pytest_says_last() -> None:
    assert counts(LOG) == Counter(passed=47, failed=2, skipped=2, rerun=1)
    assert counts("3 passed earlier") == Counter()


def test_the_summary_ends_with_the_totals_of_all_lanes(tmp_path: Path) -> None:
    lanes: list[Any] = [Ended("unit", LOG), Ended("lint", ""), Ended("docs", "")]
    lines = summary(lanes, ["unit", "lint"]).splitlines()
    assert lines[0] == "unit           1:01  2 failed, 47 passed, 2 skipped, 1 rerun"
    assert "unit          FAILED tests/a.py::test_it - assert 4 == 5 in 3.0s" in lines
    assert "unit          RERUN tests/a.py::test_flaky" in lines
    assert lines[-4:] == ["FAILED    lint", "1 rerun", "2 skipped", "47 passed, 3 failed"]
