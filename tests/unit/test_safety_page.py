"""docs/safety.md numbers the promises; a marker says which of them a test holds, and every promise has some."""

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/safety.md").read_text()
PROMISES = [int(number) for number in re.findall(r"^(\d+)\. \*\*", PAGE.partition("## The journal")[0], re.MULTILINE)]
GUARDS = PAGE.partition("## The guards")[2].partition("## The campaign")[0]
TESTS = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
FILES = {path.relative_to(ROOT).as_posix() for path in (ROOT / "airflow_kafka_groups").rglob("*")}


def test_the_promises_are_numbered() -> None:
    assert list(range(1, len(PROMISES) + 1)) == PROMISES
    assert len(PROMISES) > 10


def test_the_tests_are_marked_with_the_promises_of_the_page() -> None:
    marks = re.findall(r"^ *@pytest\.mark\.promise\b.*", TESTS, re.MULTILINE)
    holding = re.findall(
        r"^@pytest\.mark\.promise\((\d+)\)\n(?:@.*\n)*(?:async )?def (?=test_\w+\()", TESTS, re.MULTILINE
    )
    assert len(holding) == len(marks), "a marker stands directly above the test, with one number"
    held = Counter(int(number) for number in holding)
    assert sorted(held) == PROMISES
    assert min(held.values()) >= 3, held


def test_no_cell_and_no_guard_is_a_page() -> None:
    cells = [cell for line in PAGE.splitlines() if line.startswith("|") for cell in line.split("|")]
    guards = re.findall(r"^\d+\. .*", GUARDS, re.MULTILINE)
    assert len(guards) > 20
    assert [cell for cell in (*cells, *guards) if len(cell.split()) > 80] == []


def test_the_places_of_the_guards_exist() -> None:
    places = re.findall(r"`((?:change|judge|kafka|ledger|observe|spark)/[\w/]+)`", GUARDS)
    assert len(places) > 20
    known = FILES | {name.removesuffix(".py") for name in FILES}
    assert [place for place in places if f"airflow_kafka_groups/{place}" not in known] == []
