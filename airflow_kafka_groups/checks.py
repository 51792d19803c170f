"""Checks of values from users. bool and NaN are not accepted as numbers."""

from __future__ import annotations

import math
import re

from airflow_kafka_groups.durations import LONGEST, LONGEST_SECONDS
from airflow_kafka_groups.exceptions import ConfigurationError

_SHA256 = re.compile(r"[0-9a-f]{64}")


def is_digest(value: object) -> bool:
    """Return whether a value has the form of a digest."""
    return isinstance(value, str) and _SHA256.fullmatch(value) is not None


def check_number(name: str, value: object) -> float:
    """Return a finite number as a float."""
    try:
        number = math.nan if isinstance(value, bool) or not isinstance(value, int | float) else float(value)
    except OverflowError:  # an integer may have any number of digits
        number = math.inf
    if not math.isfinite(number):
        raise ConfigurationError(name, value, "must be a number")
    return number


def check_share(name: str, value: object) -> float:
    """Return a share above 0 and at most 1."""
    share = check_number(name, value)
    if not 0 < share <= 1:
        raise ConfigurationError(name, value, "must be above 0 and at most 1, such as 0.5")
    return share


def check_seconds(name: str, value: object) -> float:
    """Return a number of seconds above 0."""
    seconds = check_number(name, value)
    if not 0 < seconds <= LONGEST_SECONDS:
        raise ConfigurationError(name, value, f"must be a number of seconds above 0, {LONGEST}")
    return seconds


def check_integer(name: str, value: object, least: int, remedy: str) -> int:
    """Return an integer that is at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigurationError(name, value, remedy)
    return value


def check_digest(field_name: str, value: object) -> str:
    """Return the digest, or raise ``ConfigurationError`` for what is none."""
    if not isinstance(value, str) or not is_digest(value):
        raise ConfigurationError(field_name, value, "must be the plan's digest: 64 hexadecimal digits")
    return value
