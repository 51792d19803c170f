"""Values from users, durations, and how strings from elsewhere are shown."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.checks import check_integer, check_number, check_seconds
from airflow_kafka_groups.durations import (
    LONGEST_SECONDS,
    PATTERN,
    PATTERN_OR_NUMBER,
    SECONDS,
    parse_duration,
    read_duration,
    show_duration,
)
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.shown import MOST, one_line, printable, shortened, storable

NO_NUMBERS: list[Any] = [True, False, None, "1", float("nan"), float("inf"), [1]]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_what_is_no_number_is_refused_with_its_name(value: Any) -> None:
    for check in (check_number, check_seconds):
        with pytest.raises(ConfigurationError, match="field"):
            check("field", value)
    with pytest.raises(ConfigurationError, match="give more"):
        check_integer("field", value, 1, "give more")


def test_numbers_are_finite_and_times_above_zero() -> None:
    assert [check_number("field", value) for value in (0, -1.5, 7)] == [0.0, -1.5, 7.0]
    assert check_seconds("field", 0.001) == 0.001
    for value in (0, -1):
        with pytest.raises(ConfigurationError, match="above 0"):
            check_seconds("field", value)


def test_an_integer_that_no_float_can_be_is_refused_with_its_name() -> None:
    for check in (check_number, check_seconds):
        with pytest.raises(ConfigurationError, match="field"):
            check("field", 10**400)
        with pytest.raises(ConfigurationError, match=r"field \(got an integer of thousands of digits\)"):
            check("field", 10**5_000)  # its text is an error, too


def test_whole_numbers_have_a_least_value() -> None:
    assert check_integer("field", 1, 1, "give more") == 1
    for value in (0, 1.0, 1.5):
        with pytest.raises(ConfigurationError, match="give more"):
            check_integer("field", value, 1, "give more")


WRITTEN = {
    "7d": 604_800,
    "36h": 129_600,
    "30 min": 1_800,
    "30m": 1_800,
    "1d 12h": 129_600,
    "1d12h": 129_600,
    "1.5h": 5_400,
    "7 days": 604_800,
    "1 day": 86_400,
    "2 weeks 1 day": 1_296_000,
    "1w": 604_800,
    "90s": 90,
    "90 seconds": 90,
    "0s": 0,
    "0.7d": 60_480,
    "1.1h": 3_960,
}
REFUSED = ("", " ", "d", "7", "7x", "-7d", "7D", "7M", "12h 1d", "1d 1d", "1d 5", "7d,", "7d\n7d", "1e3s", "P7D", "1.d")


@pytest.mark.parametrize(("text", "seconds"), WRITTEN.items())
def test_what_people_write_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == parse_duration(f" {text} ") == seconds
    assert read_duration(text) == seconds
    assert re.search(PATTERN, text), "the form and the editor accept it, too"
    assert re.search(PATTERN_OR_NUMBER, text)


@pytest.mark.parametrize(
    ("text", "shown"), [("0.7d", "16h 48min"), ("1.1h", "1h 6min"), ("2.55h 0.05min", "2h 33min 3s")]
)
def test_a_part_of_a_unit_is_shown_as_what_it_is(text: str, shown: str) -> None:
    assert show_duration(parse_duration(text)) == shown


@pytest.mark.parametrize("text", REFUSED)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write it as 7d, 36h or 30 min"):
        parse_duration(text)
    assert not re.search(PATTERN, text)
    assert bool(re.search(PATTERN_OR_NUMBER, text)) == (text == "7")


def test_a_bare_number_is_in_the_unit_of_its_field() -> None:
    assert read_duration("60") == read_duration(60) == 60.0
    assert read_duration(60, "days") == 60.0
    assert read_duration("8w", "days") == 56.0
    assert read_duration("12h", "days") == 0.5


@pytest.mark.parametrize("value", [True, None, ["7d"], b"7d", "week"])
def test_what_is_neither_is_refused_with_the_unit(value: object) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        read_duration(value, "days")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(604_800, "7d"), (129_600, "1d 12h"), (1_800, "30min"), (0, "0s"), (33.3, "33.3s"), (90_061, "1d 1h 1min 1s")],
)
def test_a_duration_is_shown_in_its_largest_units(seconds: float, text: str) -> None:
    assert show_duration(seconds) == text


@given(st.integers(0, int(LONGEST_SECONDS)))
def test_what_is_shown_is_read_again(seconds: int) -> None:
    assert parse_duration(show_duration(seconds)) == seconds


def test_units_are_ordered_by_their_length() -> None:
    assert list(SECONDS.values()) == sorted(SECONDS.values(), reverse=True)


def test_more_than_a_hundred_years_are_no_duration() -> None:
    for too_long in (f"{100 * 366}d", 1e300, 10**400, LONGEST_SECONDS + 1):
        with pytest.raises(ValueError, match="at most 100 years"):
            read_duration(too_long)


def test_a_long_string_is_cut_and_says_how_long_it_is() -> None:
    assert shortened("x" * MOST) == "x" * MOST
    assert shortened("x" * 1_001) == "x" * MOST + "… (1,001 characters)"
    assert shortened("abc", 2) == "ab… (3 characters)"


@pytest.mark.parametrize(
    ("value", "shown"),
    [("ünï 1", "ünï 1"), ("a\nb", "a\\nb"), ("\x1b[31m", "\\x1b[31m"), ("a\u202eb", "a\\u202eb"), ("", "")],
)
def test_what_shows_nothing_is_escaped(value: str, shown: str) -> None:
    assert printable(value) == shown
    assert one_line(value) == shown


def test_a_line_is_short_and_has_no_line_end() -> None:
    assert one_line("a\n" * 1_000) == "a\\n" * 100 + "… (2,000 characters)"


def test_json_is_stored_without_zero_bytes() -> None:
    assert storable({"a\0": ["\0b", {"c": "\0"}, 1, None], "\x1b": True}) == {
        "a\\x00": ["\\x00b", {"c": "\\x00"}, 1, None],
        "\x1b": True,
    }
