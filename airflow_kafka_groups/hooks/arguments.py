"""Readers of arguments of operators and sensors: lists that Airflow rendered as strings, ids, numbers, patterns.

A templated list arrives as a list, as a JSON list in a string, or as Python's ``str`` of a list, which is refused:
guessing at group ids is how the wrong group gets deleted. All raise ``ConfigurationError`` for anything else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from datetime import datetime, timedelta
from enum import StrEnum
from functools import wraps
from pathlib import PurePath
from typing import Any, TypeVar
from urllib.parse import urlsplit

from airflow_kafka_groups import durations
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.models import GroupState, GroupType, TopicPartition
from airflow_kafka_groups.observe.patterns import check_patterns
from airflow_kafka_groups.storage.paths import topic_remedy
from airflow_kafka_groups.storage.url_secrets import has_secret, strings_in

T = TypeVar("T")
M = TypeVar("M", bound=StrEnum)

_SECONDS_BELOW = 100_000_000_000  # as seconds, until the year 5138; as milliseconds, before March 1973


def listed(value: Any) -> Any:
    """Return a set, or what can be looked through once, as a list: only there, templates are found and rendered."""
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)  # of strings, each process has another order
    if isinstance(value, str | bytes | list | tuple | Mapping | datetime | None):  # Airflow's proxy of one, too
        return value
    return list(value) if isinstance(value, Iterable) and not hasattr(value, "iter_references") else value


def read_strings(field: str, value: Any, *, may_be_empty: bool = False) -> list[str]:
    """Read a list of strings, passed as a list or a JSON string. Of names, only a group's may be empty."""
    items = _list(field, value, 'must be a list, or a JSON list such as ["orders"] (in a template: | tojson)')
    for item in items:
        if not isinstance(item, str) or not (item or may_be_empty):
            raise ConfigurationError(field, item, f"every item must be a {'' if may_be_empty else 'non-empty '}string")
    return items


def _list(field: str, value: Any, remedy: str) -> list[Any]:
    parsed = value
    if isinstance(value, str):
        try:
            parsed = json.loads(value)
        except ValueError:
            raise ConfigurationError(field, value, remedy) from None
    if isinstance(parsed, str | bytes | dict) or not isinstance(parsed, Iterable):
        raise ConfigurationError(field, value, remedy)
    return list(parsed)


def read_names(field: str, value: Any, *, may_be_empty: bool = False) -> list[str]:
    """Read a list of names that must not be empty; duplicates stay."""
    items = read_strings(field, value, may_be_empty=may_be_empty)
    if not items:
        raise ConfigurationError(field, None, "is an empty list: name at least one")
    return items


def read_distinct_names(field: str, value: Any) -> list[str]:
    """Read names in the order given, without duplicates; the list must not be empty."""
    return list(dict.fromkeys(read_names(field, value)))


def read_group_id(field: str, value: Any) -> str:
    """Read the id of a group as it is: with a space at its end, it is another group."""
    read_text(field, value)
    return str(value)


def read_group_ids(field: str, value: Any) -> list[str]:
    """Read group ids in the order given, without duplicates; ``""`` is one. The list must not be empty."""
    return list(dict.fromkeys(read_names(field, value, may_be_empty=True)))


def read_group_ids_once(field: str, value: Any) -> list[str]:
    """Read group ids of which none may be empty or named twice: of a deletion, that is a mistake in the list."""
    items = read_names(field, value)
    if duplicates := len(items) - len(set(items)):
        raise ConfigurationError(field, value, f"names {duplicates} group(s) twice: check it")
    return items


def read_topics(field: str, value: Any) -> list[str]:
    """Read exact names of topics, without duplicates; the list must not be empty."""
    topics = read_distinct_names(field, value)
    for topic in topics:
        if remedy := topic_remedy(topic):
            raise ConfigurationError(field, topic, remedy)
    return topics


def require_one(given: Mapping[str, Any], remedy: str) -> None:
    """Raise ``ConfigurationError`` unless exactly one of these arguments is given."""
    if sum(value is not None for value in given.values()) != 1:
        raise ConfigurationError(", ".join(given), None, remedy)


def read_patterns(field: str, value: Any) -> tuple[str, ...]:
    """Read patterns (``connect-*``, ``re:…``), passed as a list or a JSON string."""
    return check_patterns(field, read_strings(field, value))


def read_number(field: str, value: Any, *, minimum: float = 0, maximum: float | None = None) -> float:
    """Read a finite number, possibly rendered to a string. Raises ``ConfigurationError`` outside the bounds."""
    try:
        number = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not (math.isfinite(number) and number >= minimum) or (maximum is not None and number > maximum):
        upper = "" if maximum is None else f", at most {maximum:g}"
        raise ConfigurationError(field, value, f"must be a number, at least {minimum:g}{upper}")
    return number


def read_duration(
    field: str, value: Any, *, minimum: float = 0, maximum: float | None = None, unit: str = "seconds"
) -> float:
    """Read a duration: ``"7d"``, ``"36h"``, ``"30 min"``, a ``timedelta``, or a number, which is in the unit."""
    given = value.total_seconds() / durations.SECONDS[unit] if isinstance(value, timedelta) else value
    try:
        return read_number(field, durations.read_duration(given, unit), minimum=minimum, maximum=maximum)
    except (ValueError, OverflowError):
        upper = f", {durations.LONGEST}" if maximum is None else f", at most {maximum:g}"
        remedy = f"must be a duration such as {durations.EXAMPLES}, or a number of {unit}, at least {minimum:g}{upper}"
        raise ConfigurationError(field, value, remedy) from None


def read_integer(field: str, value: Any, *, minimum: int = 0, maximum: int | None = None) -> int:
    """Read an integer, possibly rendered to a string."""
    number = read_number(field, value, minimum=minimum, maximum=maximum)
    if number != int(number):
        raise ConfigurationError(field, value, "must be an integer")
    return int(value if str(value).strip().isdecimal() else number)  # a float above 2**53 is not exact


def request_of(kind: Callable[..., T], given: object, **more: Any) -> T:
    """Build the request of a verb, a dataclass, from the attributes of a task or of parsed options.

    Its defaults, where it has them, are for what is ``None`` or "". ``more`` has the fields that have another form.
    """
    named = [each for each in fields(kind) if each.init and each.name not in more]  # type: ignore[arg-type]
    required = {each.name for each in named if each.default is each.default_factory is MISSING}
    values = {each.name: getattr(given, each.name) for each in named}
    return kind(**{name: value for name, value in values.items() if name in required or value not in (None, "")} | more)


def optional(read: Callable[[str, Any], T]) -> Callable[[str, Any], T | None]:
    """Return a reader that also accepts ``None``: the argument is not given."""
    return wraps(read)(lambda field, value: None if value is None else read(field, value))


def one_of(*choices: str) -> Callable[[str, Any], str]:
    """Return a reader of one of the choices."""

    def read(field: str, value: Any) -> str:
        if value not in choices:
            raise ConfigurationError(field, value, f"must be one of {', '.join(map(repr, choices))}")
        return str(value)

    return read


def read_words(field: str, value: Any) -> list[str]:
    """Read the arguments of a program, passed as a list or a JSON string; numbers are written out."""
    remedy = 'must be a list, or a JSON list such as ["--cluster", "prod"] (in a template: | tojson)'
    if isinstance(value, str):
        check_url(field, value)  # before it is in an error
    items = _list(field, value, remedy)
    for item in items:
        # A DAG that renders natively makes the word True a bool, and its text is that word again.
        if not isinstance(item, str | int | float | PurePath):
            raise ConfigurationError(field, item, "every item must be a string, a number or a path")
        check_url(field, item)
    return list(map(str, items))


def check_url(field: str, value: object) -> None:
    """Raise ``ConfigurationError`` for URLs, with commas between them, with a password or a token: Spark shows them."""
    texts = (each for text in strings_in(str(value)) for each in (text, *text.split(",")))
    if any("://" in each and has_secret(each) for each in texts):
        raise ConfigurationError(
            field,
            None,
            "a password or token in a URL would be in rendered templates, in logs and on Spark's command line: put it "
            "into spark['conf'], by a property of its own",
        )


def read_flag(field: str, value: Any) -> bool:
    """Read a boolean, possibly rendered to a string ("True"). Anything else is an error, never a default."""
    known = {"true": True, "false": False}
    if isinstance(value, str | bool) and (text := str(value).strip().lower()) in known:
        return known[text]
    raise ConfigurationError(field, value, "must be true or false")


def read_text(field: str, value: Any) -> str:
    """Read a string that must not be empty (a template may have rendered to nothing)."""
    if not isinstance(value, str) or not value.strip() or value.strip() == "None":
        raise ConfigurationError(field, value, "must be a non-empty string (did its template render to nothing?)")
    return value.strip()


def read_mapping(field: str, value: Any) -> Mapping[str, Any]:
    """Read a mapping, passed as one or as a JSON string. It may hold secrets, so an error does not show it."""
    value = parse_object(value) if isinstance(value, str) else value
    if not isinstance(value, Mapping):
        raise ConfigurationError(field, None, "must be a mapping, or a JSON object with each name once")
    return value


def read_storage_path(field: str, value: Any) -> str:
    """Read an absolute path or a URL. Relative paths are refused: tasks run in different working folders."""
    text = read_place(field, value)
    if "://" not in text and not text.startswith("/"):
        raise ConfigurationError(field, value, "must be an absolute path or a URL such as file:///data or s3://bucket")
    return text


def read_place(field: str, value: Any) -> str:
    """Read a path or a URL without a password or a token.

    With one, it would be in rendered templates, XComs and logs: an argument is checked before Airflow stores it.
    """
    if not isinstance(value, str):
        shown = None if has_secret(str(value)) else value
        raise ConfigurationError(field, shown, "must be a string: a path or a URL, without a password or a token in it")
    text = read_text(field, value)
    if has_secret(text):  # first of all: the other errors show the value
        scheme = text.partition(":")[0] if "://" in text else "scheme"
        raise ConfigurationError(
            field,
            f"{scheme}://…",
            "a password, secret key or token in a URL would be in XCom and in logs: create an Airflow connection with "
            f"it, and write the connection's id, such as {scheme}://my_connection@bucket/folder",
        )
    try:
        urlsplit(text)
    except ValueError as exc:
        raise ConfigurationError(field, value, f"is neither a path nor a URL: {exc}") from exc
    return text


def _or_nothing(read: Callable[[str, Any], str]) -> Callable[[str, Any], str]:
    return wraps(read)(lambda field, value: value if value == "" else read(field, value))


read_text_or_nothing, read_place_or_nothing = _or_nothing(read_text), _or_nothing(read_place)


def _members_of(kind: type[M]) -> Callable[[str, Any], list[M]]:
    known = {member.value.lower(): member for member in kind}

    def read(field: str, value: Any) -> list[M]:
        names = read_strings(field, value)
        for name in names:
            if name.lower() not in known:
                raise ConfigurationError(field, name, f"is not known. Known are {', '.join(m.value for m in kind)}")
        return [known[name.lower()] for name in names]

    return read


read_state_names, read_type_names = _members_of(GroupState), _members_of(GroupType)


def read_milliseconds(field: str, value: Any) -> int:
    """Read a point in time, ISO 8601 or a ``datetime``, with a zone, or milliseconds since 1970, as milliseconds."""
    if isinstance(value, datetime) or (isinstance(value, str) and not value.strip().lstrip("-").isdecimal()):
        try:
            moment = value if isinstance(value, datetime) else datetime.fromisoformat(value.strip())
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            raise ConfigurationError(field, value, "write it as 2026-01-31T12:00:00+00:00, with its zone")
        milliseconds = round(moment.timestamp() * 1000)
        if milliseconds < 0:  # to brokers, some of these are the ends of a log
            raise ConfigurationError(field, value, "must be a time since 1970")
        return milliseconds
    number = read_integer(field, value)
    if 0 < number < _SECONDS_BELOW:
        raise ConfigurationError(field, value, f"is {number} ms after 1970; give milliseconds: seconds times 1000")
    return number


def read_pairs(field: str, value: Any) -> dict[str, str]:
    """Read ``{source: target}``, as a mapping or a JSON string."""
    given = read_mapping(field, value)
    if not given:
        raise ConfigurationError(field, value, "must name at least one source")
    for group_id in (*given, *given.values()):
        if not isinstance(group_id, str) or not group_id:
            raise ConfigurationError(field, group_id, "every source and target must be a name")
    return dict(given)


def read_partition_offsets(field: str, value: Any) -> dict[str, dict[TopicPartition, int]]:
    """Read ``{group: {topic: {partition: offset}}}``, as mappings or a JSON string; numbers may be strings."""
    given = parse_object(value) if isinstance(value, str) else value
    if given is None and value is not None:
        remedy = "must be JSON: {group: {topic: {partition: offset}}}, with each name once in its place"
        raise ConfigurationError(field, value, remedy)
    found: dict[str, dict[TopicPartition, int]] = {}
    for group_id, topics in _level(field, given):
        of_group = found.setdefault(group_id, {})
        for topic, partitions in _level(f"{field} of {group_id!r}", topics):
            for partition, offset in _level(f"{field} of {group_id!r}, topic {topic!r}", partitions, names=False):
                where = TopicPartition(topic, read_integer("partition", partition))
                if where in of_group:
                    raise ConfigurationError(f"{field} of {group_id!r}, topic {topic!r}", partition, "give it once")
                of_group[where] = read_integer("offset", offset)
    return found


def _level(field: str, value: Any, *, names: bool = True) -> list[tuple[Any, Any]]:
    if not isinstance(value, Mapping) or not value:
        raise ConfigurationError(field, value, "must be a non-empty mapping")
    if names and (wrong := [name for name in value if not isinstance(name, str) or not name]):
        raise ConfigurationError(field, wrong[0], "each group and topic in it must be a non-empty string")
    return list(value.items())


def parse_object(text: str) -> dict[str, Any] | None:
    """Parse a JSON object; ``None`` for anything else, and if an object in it has a name twice: one would be lost."""

    def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(found := dict(pairs)) < len(pairs):
            raise ValueError("a name is there twice")
        return found

    try:
        value = json.loads(text, object_pairs_hook=each_once)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
