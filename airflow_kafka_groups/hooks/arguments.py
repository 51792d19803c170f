"""Read what a user passed to an operator or sensor: lists that Airflow rendered as text, ids, numbers, patterns.

A templated list arrives as a list, as the text of a JSON list, or (with ``render_template_as_native_obj`` off) as
Python's own text of a list. The first two are accepted, the rest is refused: guessing at group ids is how the wrong
group gets deleted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.maintenance.patterns import check_patterns
from airflow_kafka_groups.models import TopicPartition

T = TypeVar("T")


def read_strings(field: str, value: Any) -> list[str]:
    """Read a list of non-empty texts, given as a list or as the text of a JSON list.

    Raises ``ConfigurationError`` for anything else.
    """
    parsed = value
    if isinstance(value, str):
        try:
            parsed = json.loads(value)
        except ValueError:
            raise ConfigurationError(
                field, value, 'must be a list, or the text of a JSON list such as ["orders"] (in a template: | tojson)'
            ) from None
    if isinstance(parsed, str | bytes | dict) or not isinstance(parsed, Iterable):
        raise ConfigurationError(field, value, "must be a list of texts")
    items = list(parsed)
    for item in items:
        if not isinstance(item, str) or not item:
            raise ConfigurationError(field, item, "every item must be a non-empty text")
    return items


def read_group_ids(value: Any, *, field: str = "group_ids") -> tuple[list[str], int]:
    """Read group ids; return them without duplicates, in order, and how many duplicates were removed.

    Raises ``ConfigurationError`` for an empty list or anything that is not a list of non-empty texts.
    """
    items = read_strings(field, value)
    if not items:
        raise ConfigurationError(field, None, "is an empty list: name at least one group")
    unique = list(dict.fromkeys(items))
    return unique, len(items) - len(unique)


def read_patterns(field: str, value: Any) -> tuple[str, ...]:
    """Read patterns (``connect-*``, ``re:…``), as a list or the text of a JSON list; refuse what cannot be used."""
    return check_patterns(field, read_strings(field, value))


def read_number(field: str, value: Any, *, minimum: float = 0, maximum: float | None = None) -> float:
    """Read a finite number that may have been rendered to text. Raises ``ConfigurationError`` outside the bounds."""
    try:
        number = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not (math.isfinite(number) and number >= minimum) or (maximum is not None and number > maximum):
        upper = "" if maximum is None else f", at most {maximum:g}"
        raise ConfigurationError(field, value, f"must be a number, at least {minimum:g}{upper}")
    return number


def read_integer(field: str, value: Any, *, minimum: int = 0, maximum: int | None = None) -> int:
    """Read a whole number that may have been rendered to text."""
    number = read_number(field, value, minimum=minimum, maximum=maximum)
    if number != int(number):
        raise ConfigurationError(field, value, "must be a whole number")
    return value if isinstance(value, int) else int(number)  # a float holds no offset above 2**53 exactly


def optional(read: Callable[[str, Any], T], field: str, value: Any) -> T | None:
    """Read what may be left out with the reader of what may not."""
    return None if value is None else read(field, value)


def read_flag(field: str, value: Any) -> bool:
    """Read a switch that may have been rendered to text ("True"). Anything unclear is an error, never a default."""
    if isinstance(value, bool):
        return value
    known = {"true": True, "false": False}
    if isinstance(value, str) and value.strip().lower() in known:
        return known[value.strip().lower()]
    raise ConfigurationError(field, value, "must be true or false")


def read_text(field: str, value: Any) -> str:
    """Read a text that must not be empty (a template may have rendered to nothing)."""
    if not isinstance(value, str) or not value.strip() or value.strip() == "None":
        raise ConfigurationError(field, value, "must be a non-empty text (did its template render to nothing?)")
    return value.strip()


def read_partition_offsets(field: str, value: Any) -> dict[str, dict[TopicPartition, int]]:
    """Read ``{group: {topic: {partition: offset}}}``, as mappings or as JSON text; the numbers may be texts."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise ConfigurationError(field, value, "must be JSON: {group: {topic: {partition: offset}}}") from None
    found: dict[str, dict[TopicPartition, int]] = {}
    for group_id, topics in _level(field, value):
        of_group = found.setdefault(group_id, {})
        for topic, partitions in _level(f"{field} of {group_id!r}", topics):
            for partition, offset in _level(f"{field} of {group_id!r}, topic {topic!r}", partitions):
                where = TopicPartition(topic, read_integer("partition", partition))
                of_group[where] = read_integer("offset", offset)
    return found


def _level(field: str, value: Any) -> list[tuple[Any, Any]]:
    if not isinstance(value, Mapping) or not value:
        raise ConfigurationError(field, value, "must be a mapping that is not empty")
    return list(value.items())
