"""When an argument is read: at once if it is a literal, after rendering if it is a template, and never silently."""

from inspect import signature
from typing import Any

import pytest
from airflow.sdk import BaseOperator

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.argument_validation import Argument, DeclaredArguments, is_template
from airflow_kafka_groups.hooks.arguments import optional, read_integer


class XComArg:
    """What another task's output looks like."""

    def iter_references(self) -> None:
        """Stand for Airflow's method of that name."""

    def __repr__(self) -> str:
        return "XComArg()"  # without an address: ids of tests are the same in every process


class Base(DeclaredArguments, BaseOperator):
    limit = Argument(optional(read_integer))

    def __init__(self, *, limit: int | str | None = "5", **kwargs: Any) -> None:
        super().__init__(**{"task_id": "t", **kwargs})
        self.said: list[str] = []


class Sub(Base):
    number = Argument(read_integer)

    def __init__(self, *, number: int | str, said: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.said.append(said)
        if number == "7":
            raise ConfigurationError("number", number, "is refused by the body")


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
    assert Sub.template_fields == (*BaseOperator.template_fields, "limit", "number")


def test_a_literal_is_read_when_it_is_set() -> None:
    task = Sub(number=1)
    task.number = "8"
    assert task.number == 8
    with pytest.raises(ConfigurationError, match="number"):
        task.number = "many"
    with pytest.raises(AttributeError, match="limit"):
        _ = object.__new__(Sub).limit


@pytest.mark.parametrize("template", ["{{ number }}", "{% if number %}{{ number }}{% endif %}"])
def test_a_template_is_read_when_it_has_rendered(template: str) -> None:
    tasks = [Sub(number=template) for _ in range(2)]
    assert vars(tasks[0])["number"] == template
    tasks[0].render_template_fields({"number": "8"})  # type: ignore[typeddict-unknown-key]
    assert tasks[0].number == 8
    with pytest.raises(ConfigurationError, match="number"):
        tasks[1].render_template_fields({"number": "many"})  # type: ignore[typeddict-unknown-key]


def test_what_still_looks_like_a_template_after_rendering_is_read_as_it_is() -> None:
    with pytest.raises(ConfigurationError, match="number"):
        Sub(number="{{ number }}").render_template_fields({"number": "{{"})  # type: ignore[typeddict-unknown-key]


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
