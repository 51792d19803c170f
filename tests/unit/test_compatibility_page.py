"""Each row of the page on compatibility has a test that exists, and runs what the row says."""

import re
from pathlib import Path

import pytest

from tests.lab import fixtures
from tests.lanes import pythons
from tests.lanes.project import LANES, MISSING_VERSIONS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "help" / "compatibility.md").read_text(encoding="utf-8")
FOLDERS = [ROOT / "tests" / name for name in ("unit", "exhaustive")]


def rows(title: str) -> list[list[str]]:
    """Return the cells of the table below a heading, without its header."""
    table = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_product_is_held_by_a_test() -> None:
    found = rows("Products")
    assert len(found) >= 9
    written = {
        name
        for folder in FOLDERS
        for file in folder.rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", file.read_text(encoding="utf-8"), re.M)
    }
    for product, *_, last in found:
        names = re.findall(r"`(test_\w+)`", last)
        assert len(names) == 1, f"a row without a test: {product}"
        assert set(names) <= written, product


@pytest.mark.parametrize(("release", "fixture"), [(row[0], row[-1].strip("`")) for row in rows("Apache Kafka")])
def test_every_release_runs_as_real_brokers(release: str, fixture: str) -> None:
    version, _ = fixtures._SHARED[fixture]
    assert version.startswith(f"{release}."), f"{fixture} runs {version}"
    tests = (file.read_text(encoding="utf-8") for file in (ROOT / "tests" / "integration").glob("test_*.py"))
    assert any(re.search(rf"\b{fixture}\b", text) for text in tests), f"no integration test uses {fixture}"


def test_no_release_is_left_out() -> None:
    assert {row[-1].strip("`") for row in rows("Apache Kafka")} == set(fixtures._SHARED)


def test_the_lanes_of_the_last_table_exist_and_try_every_promised_version() -> None:
    named = {lane for row in rows("Python, Airflow and Spark") for lane in re.findall(r"`([\w.-]+)`", row[-1])}
    running = {lane.name for lane in LANES} | {f"python-{version}" for version in MISSING_VERSIONS}
    assert named <= running | {f"python-{version}" for version in pythons.promised()}
    of_python = " ".join(row[1] for row in rows("Python, Airflow and Spark") if row[0] == "Python")
    assert set(re.findall(r"3\.\d+", of_python)) == set(pythons.promised())
