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


def test_a_template_is_not_known_yet_and_a_literal_is() -> None:
    for text in ("{{ x }}", "a{{x}}", "{% if x %}1{% endif %}", "{% x"):
        assert all(map(is_template, (text, ["a", text], (text,), {"a": {"b": text}}, {text: 1})))
    assert all(map(is_template, (XComArg(), [XComArg()], {"a": XComArg()})))
    assert not any(map(is_template, ("", "a", "{ x }", "}}", "%}", 5, None, True, [], ["a", 5], {}, {"a": ["b"]})))


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
    rendered: Any = [{"number": number} for number in ("8", "many", "{{")]
    tasks = [Sub(number=template) for _ in rendered]
    assert vars(tasks[0])["number"] == template
    tasks[0].render_template_fields(rendered[0])
    assert tasks[0].number == 8
    for task, context in zip(tasks[1:], rendered[1:], strict=True):
        with pytest.raises(ConfigurationError, match="number"):
            task.render_template_fields(context)


def test_declared_arguments_are_set_from_the_call_or_their_default_when_the_body_is_done() -> None:
    made = Sub(number="1", said="x")
    assert (made.number, made.limit) == (1, 5)
    assert made.said == ["x"], "what is not declared is left to the body"
    assert (Sub(number=2, limit=None).limit, Sub(limit=3, number=2).limit) == (None, 3)
    for number, said in (("7", "refused by the body"), ("a", "number")):
        with pytest.raises(ConfigurationError, match=said):
            Sub(number=number)
    assert Sub.template_fields == (*BaseOperator.template_fields, "limit", "number")
    assert list(signature(Sub.__init__).parameters) == ["self", "number", "said", "kwargs"], "as editors read it"


def test_a_subclass_whose_own_attribute_would_hide_what_is_passed_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"Hiding\.number .*another default to its __init__"):
        type("Hiding", (Sub,), {"number": 1})
    assert type("Own", (Sub,), {"said": "x", "number": Argument(read_integer)})(number=2).number == 2
