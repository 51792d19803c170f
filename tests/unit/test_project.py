"""The tools of this repository: layers, oldest versions, guards, tables."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests import layers
from tests.campaign.mutants import MUTANTS, PRUNING_MUTANTS
from tests.tables import rows


def test_the_picture_is_that_of_the_imports() -> None:
    assert layers.PICTURE.read_text() == layers.draw(), "the imports have changed: run 'make layers'"


def test_every_package_that_is_imported_is_in_the_picture() -> None:
    drawn = layers.draw()
    assert all(f">{name}</text>" in drawn for edge in layers.imports() for name in edge)


def test_an_edge_that_follows_from_others_is_left_out() -> None:
    edges = {("a", "b"), ("b", "c"), ("a", "c"), ("d", "c")}
    assert layers.reduced(edges) == {("a", "b"), ("b", "c"), ("d", "c")}


def test_a_new_import_changes_the_picture() -> None:
    assert ("plugins", "operators") not in layers.imports(), "the picture shows what is imported"
    assert layers.reduced(layers.imports() | {("cli", "storage")}) == layers.reduced(layers.imports())
    assert layers.reduced(layers.imports() | {("plugins", "operators")}) != layers.reduced(layers.imports())


ROOT = Path(__file__).parents[2]


def test_the_oldest_airflow_is_tested_with_the_oldest_of_each_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints-airflow-3.2.txt").read_text(), re.MULTILINE))
    named = [*project["dependencies"], *project["optional-dependencies"]["spark"]]
    promised = {each.name: each.specifier for each in map(Requirement, named)}
    oldest = {
        name: specified.version
        for name, specifiers in promised.items()
        for specified in specifiers
        if specified.operator in (">=", "~=") and name in pinned
    }
    assert len(oldest) >= 9
    assert {name: Version(pinned[name]) for name in oldest} == {name: Version(oldest[name]) for name in oldest}


def test_every_guard_that_the_campaign_takes_out_is_there() -> None:
    patches = [each for every in (MUTANTS, PRUNING_MUTANTS) for patches in every.values() for each in patches]
    assert [(place, name) for place, name, _ in patches if not hasattr(place, name)] == []


def test_every_row_that_fails_is_reported_and_named() -> None:
    seen: list[tuple[int, str, str]] = []

    @rows("number", [1, 2, 3])
    @rows("letter", "ab")
    def odd(number: int, letter: str, fixed: str) -> None:
        seen.append((number, letter, fixed))
        assert number == 2 or (number, letter) == (1, "a")

    with pytest.raises(ExceptionGroup, match=r"3 row\(s\) of odd fail") as caught:
        odd(fixed="x")
    assert len(seen) == 6, "a row that fails does not hide those behind it"
    assert [error.__notes__ for error in caught.value.exceptions] == [
        ["with letter = 'b'", "with number = 1"],
        ["with letter = 'a'", "with number = 3"],
        ["with letter = 'b'", "with number = 3"],
    ]


def test_a_table_that_holds_raises_nothing_and_one_without_rows_is_refused() -> None:
    rows("number", [1, 2])(lambda number: None)()
    with pytest.raises(AssertionError, match="can never fail"):
        rows("number", [])
