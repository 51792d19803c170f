"""The pages of docs/reference are those that the code gives."""

from __future__ import annotations

import importlib
import re
from typing import Any

import pytest

from airflow_kafka_groups.provider_info import get_provider_info
from tests.pages import DOCS, ROOT
from tests.reference import markdown
from tests.reference.licences import is_the_tested_environment
from tests.reference.tasks import classes
from tests.reference.written import LICENCES, PAGES_BY_NAME

PACKAGE = ROOT / "airflow_kafka_groups"


@pytest.mark.parametrize("name", [name for name in PAGES_BY_NAME if name != LICENCES or is_the_tested_environment()])
def test_a_generated_page_is_up_to_date(name: str) -> None:
    assert (DOCS / "reference" / name).read_text() == PAGES_BY_NAME[name](), (
        "the code has changed: run 'make reference'"
    )


def test_every_page_in_the_folder_is_generated() -> None:
    assert {path.name for path in (DOCS / "reference").glob("*.md")} == set(PAGES_BY_NAME)


def test_every_public_exception_is_beside_what_it_can_be_imported_from() -> None:
    """The page says where each is from: those of Spark's jobs are in no list of ``airflow_kafka_groups.exceptions``."""
    page = (DOCS / "reference" / "exceptions.md").read_text()
    defined = {
        name
        for path in PACKAGE.rglob("*.py")
        for name in re.findall(r"^class ([A-Z]\w*Error)\b", path.read_text(), re.M)
    }
    assert defined == set(re.findall(r"^- `(\w+)`", page, re.MULTILINE))
    for name, module in re.findall(r"^- `(\w+)`: `(airflow_kafka_groups[\w.]+)`$", page, re.MULTILINE):
        assert issubclass(getattr(importlib.import_module(module), name), Exception)


@pytest.mark.parametrize("kind", ["operators", "sensors", "triggers"])
def test_every_module_of_the_provider_has_a_class_in_the_reference(kind: str) -> None:
    # What sensors defer to is of no use to the authors of DAG files.
    modules = set(get_provider_info()[kind][0]["python-modules"]) - {"airflow_kafka_groups.triggers.poll"}
    assert {each.__module__ for each in classes(kind)} == modules


def test_no_default_shows_this_machine() -> None:
    text = "".join(path.read_text() for path in (DOCS / "reference").glob("*.md"))
    assert "/tmp" not in text
    assert " at 0x" not in text


def test_a_cell_cannot_break_the_table_or_begin_a_tag() -> None:
    assert markdown.cell("a|b\n <c> `<d>`") == "a\\|b &lt;c> `<d>`"


def test_a_pattern_is_no_emphasis() -> None:
    """``(connect-*, __*)`` lost its asterisks on the page."""
    assert markdown.cell("(connect-*, __*) `a*`") == "(connect-\\*, __\\*) `a*`"


class Documented:
    """A thing, as ``code``.

    More of it.

    :param one: the first,
        on two lines.
    :param two: the second.

    Raises nothing.
    """


def test_a_docstring_is_divided_into_summary_and_parameters() -> None:
    assert markdown.summary(Documented) == "A thing, as `code`.\n\nMore of it."
    assert markdown.parameters(Documented) == {"one": "the first, on two lines.", "two": "the second."}


@pytest.mark.parametrize(("value", "shown"), [(None, ""), ([1], "`[1]`"), ("x", '`"x"`')])
def test_a_value_is_shown_as_json(value: Any, shown: str) -> None:
    assert markdown.code(value) == shown
