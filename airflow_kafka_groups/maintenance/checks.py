"""Check numbers that people give; bool is no number here, and neither is NaN."""

from __future__ import annotations

import math

from airflow_kafka_groups.exceptions import ConfigurationError


def check_number(name: str, value: object) -> float:
    """Give a finite number as a float."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigurationError(name, value, "give a number")
    return float(value)


def check_seconds(name: str, value: object) -> float:
    """Give a time above 0."""
    seconds = check_number(name, value)
    if seconds <= 0:
        raise ConfigurationError(name, value, "give a number of seconds above 0")
    return seconds


def check_whole(name: str, value: object, least: int, remedy: str) -> int:
    """Give a whole number that is not below ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigurationError(name, value, remedy)
    return value
