"""What users pass to operators and sensors, as Airflow renders it: read exactly, or refused with the field's name."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.arguments import (
    optional,
    read_flag,
    read_group_ids,
    read_integer,
    read_number,
    read_partition_offsets,
    read_patterns,
    read_strings,
    read_text,
)
from airflow_kafka_groups.models import TopicPartition

NOT_TEXTS: list[Any] = [
    5,
    None,
    True,
    {"a": 1},
    b"a",
    "a",
    '"a"',
    '{"a": 1}',
    "5",
    "null",
    "['a']",
    [""],
    ["a", 5],
    [None],
]


def refused(read: Callable[..., Any], *arguments: Any, **options: Any) -> None:
    with pytest.raises(ConfigurationError, match="field"):
        read(*arguments, **options)


@pytest.mark.parametrize("value", [["a", "b"], ("a", "b"), '["a", "b"]', dict.fromkeys("ab").keys(), iter("ab")])
def test_texts_come_as_a_list_or_as_the_json_of_one(value: Any) -> None:
    assert read_strings("field", value) == ["a", "b"]


@pytest.mark.parametrize("value", NOT_TEXTS, ids=repr)
def test_whatever_else_is_refused_instead_of_guessed_at(value: Any) -> None:
    refused(read_strings, "field", value)


def test_group_ids_lose_their_duplicates_and_may_not_be_none_at_all() -> None:
    assert read_group_ids(["b", "a", "b", "b"]) == (["b", "a"], 2)
    assert read_group_ids('["a"]') == (["a"], 0)
    assert read_strings("field", []) == []
    refused(read_group_ids, [], field="field")


def test_patterns_are_checked() -> None:
    assert read_patterns("field", ["a*", "re:b.*"]) == ("a*", "re:b.*")
    refused(read_patterns, "field", ["re:("])


@pytest.mark.parametrize(
    ("value", "number"), [(0, 0.0), (2.5, 2.5), ("2.5", 2.5), (" 7 ", 7.0), ("1e3", 1000.0), ("0", 0.0)]
)
def test_numbers_may_be_rendered_to_text(value: Any, number: float) -> None:
    assert read_number("field", value) == number


@pytest.mark.parametrize("value", [-1, "-0.1", True, False, None, "", "many", "nan", "inf", float("nan"), [], {}])
def test_what_is_no_number_or_too_small_is_refused(value: Any) -> None:
    refused(read_number, "field", value)


@pytest.mark.parametrize(
    ("value", "minimum", "maximum", "fits"),
    [
        (1, 1, None, True),
        (0.9, 1, None, False),
        (5, 1, 5, True),
        (5.1, 1, 5, False),
        (-3, -3, 0, True),
        (9e9, 0, None, True),
    ],
)
def test_bounds_belong_to_what_they_bound(value: float, minimum: float, maximum: float | None, fits: bool) -> None:
    if fits:
        assert read_number("field", value, minimum=minimum, maximum=maximum) == value
    else:
        refused(read_number, "field", value, minimum=minimum, maximum=maximum)


def test_whole_numbers_are_whole_and_as_large_as_offsets() -> None:
    assert read_integer("field", 2**53 + 1) == 2**53 + 1, "a float in between would be one less"
    assert (read_integer("field", "7"), read_integer("field", 7.0)) == (7, 7)
    assert read_integer("field", 5, maximum=5) == 5
    for value in (7.5, "7.5", True, None, "x"):
        refused(read_integer, "field", value)
    refused(read_integer, "field", 0, minimum=1)
    refused(read_integer, "field", 6, maximum=5)


def test_what_is_left_out_stays_left_out() -> None:
    assert optional(read_integer)("field", None) is None
    assert optional(read_integer)("field", 0) == 0
    refused(optional(read_integer), "field", "x")


@pytest.mark.parametrize(
    ("value", "flag"), [(True, True), (False, False), ("True", True), ("false", False), (" TRUE ", True)]
)
def test_switches_may_be_rendered_to_text(value: Any, flag: bool) -> None:
    assert read_flag("field", value) is flag


@pytest.mark.parametrize("value", [None, "", "None", "yes", "no", 0, 1, "0", "1", [], "maybe"], ids=repr)
def test_an_unclear_switch_is_an_error_and_never_a_default(value: Any) -> None:
    refused(read_flag, "field", value)


def test_a_text_is_not_what_a_template_renders_nothing_to() -> None:
    assert read_text("field", " a ") == "a"
    for value in (None, "", "  ", "None", " None ", 5, ["a"]):
        refused(read_text, "field", value)


def test_offsets_are_three_levels_of_mappings_or_their_json() -> None:
    offsets: dict[str, Any] = {"a": {"t": {"0": 5, 1: "6"}, "u": {"0": 0}}, "b": {"t": {"0": 2**53 + 1}}}
    found = {
        "a": {TopicPartition("t", 0): 5, TopicPartition("t", 1): 6, TopicPartition("u", 0): 0},
        "b": {TopicPartition("t", 0): 2**53 + 1},
    }
    assert read_partition_offsets("field", offsets) == found
    assert read_partition_offsets("field", json.dumps(offsets)) == found


@pytest.mark.parametrize(
    "value",
    [{}, {"a": {}}, {"a": {"t": {}}}, [], "[]", "no json", None, 5, {"a": {"t": 5}}, {"a": ["t"]}],
    ids=repr,
)
def test_offsets_with_an_empty_or_another_level_are_refused(value: Any) -> None:
    refused(read_partition_offsets, "field", value)


@pytest.mark.parametrize("rows", [{"x": 1}, {"-1": 1}, {0: -1}, {0: 1.5}, {0: None}], ids=repr)
def test_partitions_and_offsets_are_whole_and_not_negative(rows: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"partition|offset"):
        read_partition_offsets("field", {"a": {"t": rows}})
