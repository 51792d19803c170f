from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from tests.lanes.lane import Lane
from tests.lanes.screen import counts, summary

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
