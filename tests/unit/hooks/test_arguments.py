"""What users pass to operators and sensors: when it is read, and read exactly, or refused with the field's name."""

import json
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from inspect import signature
from typing import Any

import pytest
from airflow.sdk import BaseOperator

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.argument_validation import Argument, DeclaredArguments, is_template
from airflow_kafka_groups.hooks.arguments import (
    one_of,
    optional,
    read_distinct_names,
    read_duration,
    read_flag,
    read_group_ids,
    read_group_ids_once,
    read_integer,
    read_mapping,
    read_milliseconds,
    read_names,
    read_number,
    read_partition_offsets,
    read_patterns,
    read_state_names,
    read_storage_path,
    read_strings,
    read_text,
    read_text_or_nothing,
    read_type_names,
)
from airflow_kafka_groups.kafka.models import GroupState, GroupType, TopicPartition

OFFSETS: dict[str, Any] = {"a": {"t": {"0": 5, 1: "6"}, "u": {"0": 0}}, "b": {"t": {"0": 2**53 + 1}}}
READ_OFFSETS = {
    "a": {TopicPartition("t", 0): 5, TopicPartition("t", 1): 6, TopicPartition("u", 0): 0},
    "b": {TopicPartition("t", 0): 2**53 + 1},
}
Read = Callable[[str, Any], Any]
READ: list[tuple[Read, list[Any], Any]] = [
    # a reader, values that are the same, and what they are read as
    (read_strings, [["a", "b"], ("a", "b"), '["a", "b"]', dict.fromkeys("ab").keys(), iter("ab")], ["a", "b"]),
    (read_strings, [[]], []),
    (read_group_ids, [["b", "a", "b", "b"], '["b", "a"]'], ["b", "a"]),
    (read_group_ids, ['["", "a", ""]'], ["", "a"]),
    (read_group_ids_once, [["a"]], ["a"]),
    (read_names, [["b", "a", "b"]], ["b", "a", "b"]),
    (read_patterns, [["a*", "re:b.*"]], ("a*", "re:b.*")),
    (read_state_names, [["empty", "STABLE"]], [GroupState.EMPTY, GroupState.STABLE]),
    (read_type_names, ['["Classic"]'], [GroupType.CLASSIC]),
    (read_number, [7, 7.0, "7", " 7 ", "7.0", "7e0"], 7.0),
    (read_number, [0, "0"], 0.0),
    (read_number, [9e9], 9e9),
    (partial(read_number, minimum=1, maximum=5), [5, "5"], 5.0),
    (partial(read_number, minimum=-3, maximum=0), [-3], -3.0),
    (read_integer, [2**53 + 1, str(2**53 + 1)], 2**53 + 1),  # a float in between would be one less
    (partial(read_integer, maximum=7), ["7", 7.0], 7),
    (optional(read_integer), [None], None),
    (optional(read_integer), [0], 0),
    (read_duration, ["36h", "1d 12h", "129600", 129_600, timedelta(hours=36)], 129_600.0),
    (partial(read_duration, unit="days"), ["36h", 1.5, timedelta(hours=36)], 1.5),
    (read_flag, [True, "True", " TRUE "], True),
    (read_flag, [False, "false"], False),
    (read_text, [" a ", "a"], "a"),
    (read_text_or_nothing, [""], ""),
    (one_of("all", "any"), ["any"], "any"),
    (read_mapping, [{"a": 1}, '{"a": 1}'], {"a": 1}),
    (read_storage_path, ["/x"], "/x"),
    (read_storage_path, ["s3://b/x"], "s3://b/x"),
    (read_milliseconds, ["1970-01-01T00:00:01+00:00"], 1_000),
    (read_milliseconds, ["1970-01-01T01:00:00.5+01:00"], 500),
    (read_milliseconds, [" 2026-01-01T00:00:00Z ", "1767225600000", 1_767_225_600_000], 1_767_225_600_000),
    (read_milliseconds, [0], 0),
    (read_partition_offsets, [OFFSETS, json.dumps(OFFSETS)], READ_OFFSETS),
]
REFUSED: list[tuple[Read, list[Any], str]] = [
    # a reader, values that it refuses instead of guessing, and what it says
    (read_strings, [5, None, True, {"a": 1}, b"a", "a", '"a"', '{"a": 1}', "5", "null", "['a']", [""], ["a", 5]], ""),
    (read_distinct_names, [["", "a"], []], ""),
    (read_names, [[]], "name at least one"),
    (read_group_ids, [[]], "name at least one"),
    (read_group_ids_once, [["", "a"], []], ""),
    (read_group_ids_once, [["a", "b", "a", "b"]], r"2 group\(s\)"),
    (read_patterns, [["re:("]], ""),
    (read_state_names, [["sleepy"]], "is not known"),
    (read_type_names, [["classic", "modern"]], "is not known"),
    (read_number, [-1, "-0.1", True, False, None, "", "many", "nan", "inf", float("nan"), [], {}], "must be a number"),
    (partial(read_number, minimum=1, maximum=5), [0.9, 5.1], "at least 1, at most 5"),
    (read_integer, [7.5, "7.5", True, None, "x"], ""),
    (partial(read_integer, minimum=1, maximum=5), [0, 6], ""),
    (optional(read_integer), ["x"], ""),
    (
        read_duration,
        ["7x", "", None, True, "-1h", -1, "inf", "nan", [1], timedelta(seconds=-1)],
        "must be a duration such as 7d, 36h or 30 min, or a number",
    ),
    (partial(read_duration, minimum=1, maximum=3, unit="days"), ["12h", "4d"], "number of days, at least 1, at most 3"),
    (read_flag, [None, "", "None", "yes", "no", 0, 1, "0", "1", [], "maybe"], "must be true or false"),
    (read_text, [None, "", "  ", "None", " None ", 5, ["a"]], ""),
    (read_text_or_nothing, [" ", "None", None], ""),
    (one_of("all", "any"), ["most", None, "", "ALL"], "must be one of 'all', 'any'"),
    (read_storage_path, ["x", "./x", ""], ""),
    (read_milliseconds, ["2026-01-01T00:00:00", "yesterday", "-5", -5, 1.5, None, True], ""),
    (read_milliseconds, [1_767_225_600, "1767225600"], "seconds times 1000"),
    # Brokers take -1 for the end of the log and -2 for its start: a reset went to the end.
    (read_milliseconds, ["1969-12-31T23:59:59.999+00:00", "0001-01-01T00:00:00+00:00"], "since 1970"),
    (read_partition_offsets, [{}, {"a": {}}, {"a": {"t": {}}}, [], "[]", "no json", None, 5, {"a": ["t"]}], ""),
    (
        read_partition_offsets,  # of these, one offset would be lost
        [
            '{"a": {"t": {"0": 1}}, "a": {"u": {"0": 2}}}',
            '{"a": {"t": {"0": 1}, "t": {"1": 2}}}',
            '{"a": {"t": {"0": 1, "0": 2}}}',
            {"a": {"t": {0: 1, "0": 2}}},
            {"a": {"t": {"1": 1, "01": 2}}},
        ],
        "once",
    ),
]


@pytest.mark.parametrize(("read", "values", "expected"), READ)
def test_what_airflow_renders_is_read_exactly(read: Read, values: list[Any], expected: Any) -> None:
    for value in values:
        found = read("field", value)
        assert (found, type(found)) == (expected, type(expected)), value


@pytest.mark.parametrize(("read", "values", "said"), REFUSED)
def test_whatever_else_is_refused_instead_of_guessed_at(read: Read, values: list[Any], said: str) -> None:
    for value in values:
        with pytest.raises(ConfigurationError, match=f"field.*{said}"):
            read("field", value)


@pytest.mark.parametrize("rows", [{"x": 1}, {"-1": 1}, {0: -1}, {0: 1.5}, {0: None}], ids=repr)
def test_partitions_and_offsets_are_whole_and_not_negative(rows: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"partition|offset"):
        read_partition_offsets("field", {"a": {"t": rows}})


def test_a_mapping_that_is_refused_is_not_shown() -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_mapping("field", "s3cr3t")
    assert "s3cr3t" not in str(caught.value)


# When an argument is read: at once if it is a literal, after rendering if it is a template, and never silently.


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
