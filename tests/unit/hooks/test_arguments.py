"""What users pass to operators and sensors, as Airflow renders it: read exactly, or refused with the field's name."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError
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
    read_switch,
    read_text,
    read_text_or_nothing,
    read_type_names,
)
from airflow_kafka_groups.kafka.models import GroupState, GroupType, TopicPartition

NOT_TEXTS: list[Any] = [5, None, True, {"a": 1}, b"a", "a", '"a"', '{"a": 1}', "5", "null", "['a']", [""], ["a", 5]]


def refused(read: Callable[..., Any], *arguments: Any, **options: Any) -> None:
    with pytest.raises(ConfigurationError, match="field"):
        read(*arguments, **options)


@pytest.mark.parametrize("value", [["a", "b"], ("a", "b"), '["a", "b"]', dict.fromkeys("ab").keys(), iter("ab")])
def test_texts_come_as_a_list_or_as_the_json_of_one(value: Any) -> None:
    assert read_strings("field", value) == ["a", "b"]


@pytest.mark.parametrize("value", NOT_TEXTS, ids=repr)
def test_whatever_else_is_refused_instead_of_guessed_at(value: Any) -> None:
    refused(read_strings, "field", value)


def test_group_ids_lose_their_duplicates_or_may_have_none_and_are_never_no_ids_at_all() -> None:
    assert read_group_ids("field", ["b", "a", "b", "b"]) == ["b", "a"]
    assert read_group_ids("field", '["a"]') == read_group_ids_once("field", ["a"]) == ["a"]
    assert read_names("field", ["b", "a", "b"]) == ["b", "a", "b"]
    with pytest.raises(ConfigurationError, match=r"field.*2 group\(s\)"):
        read_group_ids_once("field", ["a", "b", "a", "b"])
    assert read_strings("field", []) == []
    assert read_group_ids("field", '["", "a", ""]') == ["", "a"]
    for read in (read_distinct_names, read_group_ids_once):
        refused(read, "field", ["", "a"])
    for read in (read_names, read_group_ids, read_group_ids_once):
        refused(read, "field", [])


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


def test_bounds_belong_to_what_they_bound() -> None:
    for value, minimum, maximum in ((1, 1, None), (5, 1, 5), (-3, -3, 0), (9e9, 0, None)):
        assert read_number("field", value, minimum=minimum, maximum=maximum) == value
    for value, maximum in ((0.9, None), (5.1, 5)):
        refused(read_number, "field", value, minimum=1, maximum=maximum)


@pytest.mark.parametrize("value", ["36h", "1d 12h", "129600", 129_600, timedelta(hours=36)])
def test_durations_are_read_in_seconds(value: Any) -> None:
    assert read_duration("field", value) == 129_600.0
    assert read_duration("field", value if isinstance(value, timedelta) else "36h", unit="days") == 1.5


@pytest.mark.parametrize("value", ["7x", "", None, True, "-1h", -1, "inf", "nan", [1], timedelta(seconds=-1)])
def test_what_is_no_duration_is_refused_with_an_example(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="must be a duration such as 7d, 36h or 30 min, or a number"):
        read_duration("field", value)


def test_a_durations_bounds_are_in_its_unit() -> None:
    with pytest.raises(ConfigurationError, match="a number of days, at least 1, at most 3"):
        read_duration("field", "12h", minimum=1, maximum=3, unit="days")
    with pytest.raises(ConfigurationError, match=r"got '4d'"):
        read_duration("field", "4d", minimum=1, maximum=3, unit="days")


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


def test_offsets_are_three_levels_of_mappings_or_their_json() -> None:
    offsets: dict[str, Any] = {"a": {"t": {"0": 5, 1: "6"}, "u": {"0": 0}}, "b": {"t": {"0": 2**53 + 1}}}
    found = {
        "a": {TopicPartition("t", 0): 5, TopicPartition("t", 1): 6, TopicPartition("u", 0): 0},
        "b": {TopicPartition("t", 0): 2**53 + 1},
    }
    assert read_partition_offsets("field", offsets) == found
    assert read_partition_offsets("field", json.dumps(offsets)) == found


@pytest.mark.parametrize(
    "value", [{}, {"a": {}}, {"a": {"t": {}}}, [], "[]", "no json", None, 5, {"a": {"t": 5}}, {"a": ["t"]}], ids=repr
)
def test_offsets_with_an_empty_or_another_level_are_refused(value: Any) -> None:
    refused(read_partition_offsets, "field", value)


@pytest.mark.parametrize(
    "value",
    [
        '{"a": {"t": {"0": 1}}, "a": {"u": {"0": 2}}}',
        '{"a": {"t": {"0": 1}, "t": {"1": 2}}}',
        '{"a": {"t": {"0": 1, "0": 2}}}',
        {"a": {"t": {0: 1, "0": 2}}},
        {"a": {"t": {"1": 1, "01": 2}}},
    ],
    ids=repr,
)
def test_offsets_of_which_one_would_be_lost_are_refused(value: Any) -> None:
    """A task would move the others only, and a sensor not wait for it."""
    with pytest.raises(ConfigurationError, match=r"once"):
        read_partition_offsets("field", value)


@pytest.mark.parametrize("rows", [{"x": 1}, {"-1": 1}, {0: -1}, {0: 1.5}, {0: None}], ids=repr)
def test_partitions_and_offsets_are_whole_and_not_negative(rows: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"partition|offset"):
        read_partition_offsets("field", {"a": {"t": rows}})


def test_a_choice_is_one_of_those_there_are() -> None:
    read = one_of("all", "any")
    assert read("field", "any") == "any"
    for value in ("most", None, "", "ALL"):
        refused(read, "field", value)


@pytest.mark.parametrize("value", ["True", "false", 0, 1, None], ids=repr)
def test_a_switch_that_is_no_template_field_is_a_bool(value: Any) -> None:
    assert (read_switch("field", True), read_switch("field", False)) == (True, False)
    refused(read_switch, "field", value)


def test_a_text_is_not_what_a_template_renders_nothing_to() -> None:
    assert read_text_or_nothing("field", "") == ""
    for read in (read_text, read_text_or_nothing):
        assert read("field", " a ") == "a"
        for value in (None, "  ", "None", " None ", 5, ["a"]):
            refused(read, "field", value)
    refused(read_text, "field", "")


def test_a_mapping_that_is_refused_is_not_shown() -> None:
    assert read_mapping("field", {"a": 1}) == {"a": 1}
    with pytest.raises(ConfigurationError) as caught:
        read_mapping("field", "s3cr3t")
    assert "s3cr3t" not in str(caught.value)


def test_storage_is_absolute() -> None:
    for value in ("/x", "s3://b/x"):
        assert read_storage_path("field", value) == value
    for value in ("x", "./x", ""):
        refused(read_storage_path, "field", value)


def test_states_and_types_are_known_in_any_case() -> None:
    assert read_state_names("field", ["empty", "STABLE"]) == [GroupState.EMPTY, GroupState.STABLE]
    assert read_type_names("field", '["Classic"]') == [GroupType.CLASSIC]
    refused(read_state_names, "field", ["sleepy"])
    refused(read_type_names, "field", ["classic", "modern"])


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [
        ("1970-01-01T00:00:01+00:00", 1_000),
        ("1970-01-01T01:00:00.5+01:00", 500),
        (" 2026-01-01T00:00:00Z ", 1_767_225_600_000),
        ("1767225600500", 1_767_225_600_500),
        (1_767_225_600_500, 1_767_225_600_500),
        (0, 0),
    ],
)
def test_a_time_has_a_zone_or_is_in_milliseconds(value: Any, milliseconds: int) -> None:
    assert read_milliseconds("field", value) == milliseconds


@pytest.mark.parametrize("value", ["2026-01-01T00:00:00", "yesterday", "-5", -5, 1.5, None, True], ids=repr)
def test_a_time_that_could_be_another_one_is_refused(value: Any) -> None:
    refused(read_milliseconds, "field", value)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (1_767_225_600, "seconds times 1000"),
        ("1767225600", "seconds times 1000"),
        ("1969-12-31T23:59:59.999+00:00", "since 1970"),
        ("0001-01-01T00:00:00+00:00", "since 1970"),
    ],
)
def test_seconds_and_times_before_1970_are_no_milliseconds(value: Any, said: str) -> None:
    """Brokers take -1 for the end of the log and -2 for its start: a reset went to the end."""
    with pytest.raises(ConfigurationError, match=said):
        read_milliseconds("field", value)
