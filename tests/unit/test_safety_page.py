"""docs/safety.md names the tests that hold its promises; they exist, and every promise has some."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/safety.md").read_text()
PROMISES = re.findall(r"^\| (\d+) \| \*\*", PAGE.partition("## The journal")[0], re.MULTILINE)
HELD_BY = dict(re.findall(r"^\| (\d+) \| (`test_.+) \|$", PAGE, re.MULTILINE))
TESTS = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
}
FILES = {path.relative_to(ROOT).as_posix() for path in (ROOT / "airflow_kafka_groups").rglob("*")}


def test_every_promise_is_held_by_tests() -> None:
    assert [str(number) for number in range(1, len(PROMISES) + 1)] == PROMISES
    assert len(PROMISES) > 10
    assert list(HELD_BY) == PROMISES


@pytest.mark.parametrize("number", HELD_BY)
def test_the_tests_that_hold_a_promise_exist(number: str) -> None:
    named = re.findall(r"`(test_\w+)`", HELD_BY[number])
    assert named
    assert set(named) <= TESTS


def test_the_places_of_the_guards_exist() -> None:
    guards = PAGE.partition("## The guards")[2].partition("## Groups that you name")[0]
    places = re.findall(r"`((?:change|judge|kafka|ledger|observe)/[\w/]+)(?:\.\w+)?`", guards)
    assert len(places) > 20
    known = FILES | {name.removesuffix(".py") for name in FILES}
    assert [place for place in places if f"airflow_kafka_groups/{place}" not in known] == []
