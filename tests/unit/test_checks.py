from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_groups.checks import check_integer, check_number, check_seconds
from airflow_kafka_groups.exceptions import ConfigurationError

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
