"""How strings of the cluster are shown."""

from __future__ import annotations

import pytest

from airflow_kafka_groups.shown import MOST, one_line, printable, shortened, storable


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
