"""When an argument is read: at once if it is a literal, after rendering if it is a template, and never silently."""

from __future__ import annotations

from collections.abc import Collection
from inspect import signature
from typing import Any

import pytest
from jinja2 import Environment
from jinja2.nativetypes import NativeEnvironment

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.argument_validation import Argument, DeclaredArguments, sets_arguments
from airflow_kafka_groups.hooks.arguments import optional, read_integer
from airflow_kafka_groups.hooks.json_templates import is_template


class XComArg:
    """What another task's output looks like."""

    def iter_references(self) -> None:
        """Stand for Airflow's method of that name."""

    def __repr__(self) -> str:
        return "XComArg()"  # without an address: ids of tests are the same in every process


class Renders:
    """The part of Airflow's operators that renders."""

    template_fields: Collection[str] = ("airflows_own",)

    def _do_render_template_fields(
        self, parent: Any, template_fields: Collection[str], context: Any, jinja_env: Environment, seen_oids: set[int]
    ) -> None:
        for name in template_fields:
            setattr(parent, name, context[name])


class Task(DeclaredArguments, Renders):
    number = Argument(read_integer)
    limit = Argument(optional(read_integer))

    def has_dag(self) -> bool:
        return False

    def render(self, name: str, value: Any) -> None:
        self._do_render_template_fields(self, (name,), {name: value}, NativeEnvironment(autoescape=True), set())


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


@pytest.mark.parametrize("template", ["{{ number }}", "{% if number %}{{ number }}{% endif %}"])
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
    task.limit = "{{ limit }}"
    with pytest.raises(ConfigurationError, match="rendered to nothing"):
        task.render("limit", None)


def test_what_still_looks_like_a_template_after_rendering_is_read_as_it_is() -> None:
    task = Task()
    task.number = "{{ number }}"
    with pytest.raises(ConfigurationError, match="number"):
        task.render("number", "{{")


class Base(DeclaredArguments, Renders):
    limit = Argument(optional(read_integer))

    @sets_arguments
    def __init__(self, *, limit: int | str | None = "5") -> None:
        self.said: list[str] = []


class Sub(Base):
    number = Argument(read_integer)

    @sets_arguments
    def __init__(self, *, number: int | str, said: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.said.append(said)
        if number == "7":
            raise ConfigurationError("number", number, "is refused by the body")


def test_declared_arguments_are_set_from_the_call_or_their_default() -> None:
    made = Sub(number="1", said="x")
    assert (made.number, made.limit) == (1, 5)
    assert made.said == ["x"], "what is not declared is left to the body"
    assert (Sub(number=2, limit=None).limit, Sub(limit=3, number=2).limit) == (None, 3)


def test_the_body_comes_first_and_may_refuse_arguments_together() -> None:
    with pytest.raises(ConfigurationError, match="refused by the body"):
        Sub(number="7")
    with pytest.raises(ConfigurationError, match="number"):
        Sub(number="a")


def test_the_signature_stays_what_airflow_and_editors_read() -> None:
    assert list(signature(Sub.__init__).parameters) == ["self", "number", "said", "kwargs"]


def test_a_subclass_whose_own_attribute_would_hide_what_is_passed_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"Hiding\.number .*another default to its __init__"):
        type("Hiding", (Sub,), {"number": 1})
    assert type("Own", (Sub,), {"said": "x", "number": Argument(read_integer)})(number=2).number == 2
