"""When an argument is read: at once if it is a literal, after rendering if it is a template, and never silently."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.argument_validation import Argument, DeclaredArguments, is_template
from airflow_kafka_groups.hooks.arguments import optional, read_integer


class XComArg:
    """What another task's output looks like."""

    def iter_references(self) -> None:
        """Stand for Airflow's method of that name."""

    def __repr__(self) -> str:
        return "XComArg()"  # without an address: ids of tests are the same in every process


class Renders:
    """The part of Airflow's operators that renders."""

    template_fields: Collection[str] = ("airflows_own",)

    def _do_render_template_fields(self, name: str, value: Any) -> None:
        setattr(self, name, value)


class Task(DeclaredArguments, Renders):
    number = Argument(read_integer)
    limit = Argument(optional(read_integer))

    def render(self, name: str, value: Any) -> None:
        self._do_render_template_fields(name, value)


@pytest.mark.parametrize(
    "value",
    ["{{ x }}", "a{{x}}", "{% if x %}1{% endif %}", "{% x", ["a", "{{ x }}"], ("{% x %}",), XComArg(), [XComArg()]],
    ids=str,
)
def test_a_template_is_not_known_yet(value: Any) -> None:
    assert is_template(value)
    assert is_template({"a": {"b": value}})
    if isinstance(value, str):
        assert is_template({value: 1})


@pytest.mark.parametrize(
    "value", ["", "a", "{ x }", "}}", "%}", 5, None, True, [], ["a", 5], {}, {"a": ["b"]}], ids=repr
)
def test_a_literal_is(value: Any) -> None:
    assert not is_template(value)


def test_arguments_that_may_be_templates_are_template_fields_beside_those_of_airflow() -> None:
    assert Task.template_fields == ("airflows_own", "number", "limit")


def test_a_literal_is_read_when_it_is_set() -> None:
    task = Task()
    task.number = "7"
    assert task.number == 7
    with pytest.raises(ConfigurationError, match="number"):
        task.number = "many"
    with pytest.raises(AttributeError, match="limit"):
        _ = task.limit


@pytest.mark.parametrize("template", ["{{ x }}", "{% x %}"])
def test_a_template_is_read_when_it_has_rendered(template: str) -> None:
    task = Task()
    task.number = template
    assert task.number == template
    task.render("number", "8")
    assert task.number == 8
    task.number = template
    with pytest.raises(ConfigurationError, match="number"):
        task.render("number", "many")


def test_a_template_that_renders_to_nothing_is_refused_where_nothing_could_be_given() -> None:
    task = Task()
    task.limit = None
    assert task.limit is None
    task.limit = "{{ x }}"
    with pytest.raises(ConfigurationError, match="rendered to nothing"):
        task.render("limit", None)


def test_what_still_looks_like_a_template_after_rendering_is_read_as_it_is() -> None:
    task = Task()
    task.number = "{{ x }}"
    with pytest.raises(ConfigurationError, match="number"):
        task.render("number", "{{")
