"""The pages of docs/reference are those that the code gives."""

import inspect
import os
import subprocess
import sys
from typing import Any

import pytest

from airflow_kafka_groups import exceptions
from airflow_kafka_groups.provider_info import get_provider_info
from tests.pages import DOCS, ROOT
from tests.reference import markdown
from tests.reference.tasks import arguments, classes
from tests.reference.written import PAGES_BY_NAME


@pytest.mark.parametrize("name", PAGES_BY_NAME)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    assert (DOCS / "reference" / name).read_text() == PAGES_BY_NAME[name](), (
        "the code has changed: run 'make reference'"
    )


FROM_DOCSTRINGS = {"hook.md", "operators.md", "sensors.md", "exceptions.md", "kafka.md", "verbs.md"}
"""Pages whose content mkdocstrings reads from the code when the site is built."""


def test_every_page_in_the_folder_is_generated() -> None:
    assert {path.name for path in (DOCS / "reference").glob("*.md")} == {*PAGES_BY_NAME, *FROM_DOCSTRINGS}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Build the site, strictly: its pages of the reference, as HTML."""
    folder = tmp_path_factory.mktemp("site")
    command = ["mkdocs", "build", "--strict", "--quiet", "--config-file", str(ROOT / ".mkdocs.yml")]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-m", *command, "--site-dir", str(folder)], check=True, env=environment, cwd=ROOT)
    return {name: (folder / "reference" / name[:-3] / "index.html").read_text() for name in FROM_DOCSTRINGS}


def test_every_exception_is_in_the_reference(site: dict[str, str]) -> None:
    names = [name for name, value in vars(exceptions).items() if inspect.isclass(value) and name.endswith("Error")]
    assert len(names) > 40
    assert [name for name in names if f'id="airflow_kafka_groups.exceptions.{name}"' not in site["exceptions.md"]] == []


@pytest.mark.parametrize(("kind", "page"), [("operators",) * 2, ("sensors",) * 2, ("triggers", "sensors")])
def test_every_class_is_in_the_reference_with_all_its_arguments(site: dict[str, str], kind: str, page: str) -> None:
    """Also with those that it hands on to its bases."""
    for each in classes(kind):
        _, _, after = site[f"{page}.md"].partition(f'id="{each.__module__}.{each.__name__}"')
        shown = after.partition("doc doc-object doc-class")[0]
        for name in arguments(each):
            assert f"<b><code>{name}</code></b>" in shown, (each.__name__, name)


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
    """A thing.

    :param one: the first, ``code``,
        on two lines.
    :param two: the second.

    Raises nothing.
    """


def test_the_parameters_of_a_docstring_are_found() -> None:
    assert markdown.parameters(Documented) == {"one": "the first, `code`, on two lines.", "two": "the second."}


@pytest.mark.parametrize(("value", "shown"), [(None, ""), ([1], "`[1]`"), ("x", '`"x"`')])
def test_a_value_is_shown_as_json(value: Any, shown: str) -> None:
    assert markdown.code(value) == shown
