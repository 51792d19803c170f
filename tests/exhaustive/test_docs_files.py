"""The files that the pages name exist."""

import re
from pathlib import Path

import pytest

from tests.pages import DOCS, PAGES, ROOT, name_of

NAMED = re.compile(r"`((?:[\w.]+/)*\w+\.py)`")
YOURS = {"groups.py"}
"""Programs of the reader."""

FILES = [
    path.relative_to(ROOT).as_posix()
    for top in ("airflow_kafka_groups", "dags", "tests")
    for path in (ROOT / top).rglob("*.py")
]


def exists(name: str) -> bool:
    return any(path == name or path.endswith(f"/{name}") for path in FILES)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_that_a_page_names_exist(page: Path) -> None:
    assert [name for name in NAMED.findall(page.read_text()) if name not in YOURS and not exists(name)] == []


def test_design_names_many_files() -> None:
    assert len(NAMED.findall((ROOT / "docs/design.md").read_text())) > 20
    assert not exists("no_such_module.py")


def test_the_table_of_operators_names_their_modules() -> None:
    page = (ROOT / "docs/howto/operators.md").read_text()
    _, _, table = page.partition("| import from `airflow_kafka_groups.operators…` |\n|---|---|---|\n")
    rows = table.partition("\n\n")[0].splitlines()
    assert len(rows) > 5
    for row in rows:
        modules = [
            ROOT / "airflow_kafka_groups/operators" / f"{name}.py"
            for name in re.findall(r"`\.(\w+)`", row.rpartition("` | ")[2])
        ]
        code = "".join(module.read_text() for module in modules)
        assert [name for name in re.findall(r"`(\w+Operator)`", row) if f"\nclass {name}(" not in code] == []


def test_every_page_is_in_the_navigation() -> None:
    named = re.findall(r": (\S+\.md)\b", (ROOT / ".mkdocs.yml").read_text().partition("\nnav:")[2])
    assert sorted(named) == sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def test_warnings_of_the_site_are_errors() -> None:
    """``--quiet`` hides warnings from ``--strict``, too: links and pages were not checked."""
    (build,) = re.findall(r"mkdocs build .*", (ROOT / "Makefile").read_text())
    assert "--strict" in build
    assert "--quiet" not in build
