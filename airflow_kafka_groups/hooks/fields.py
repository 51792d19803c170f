"""Checks of single fields of a connection's form: Airflow checks nothing but types, and not always those.

Each function raises ``ConfigurationError`` with the field's name, its value (never a secret) and the remedy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher
from itertools import chain
from typing import Any

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.cluster.librdkafka import check_java_names
from airflow_kafka_groups.kafka.transport.pem import PEM_MARK
from airflow_kafka_groups.observe.patterns import check_patterns, spellings_of, split_patterns

OWN_FIELDS = ("read_only", "protected_groups", "lease_group_prefix", "floors")
"""The fields that a connection of the official provider may have beside librdkafka properties."""

_LOOKS_LIKE = 0.85  # a similarity from 0 to 1: about one wrong letter in eight
_PREFIX = re.compile(r"[A-Za-z0-9._-]{0,100}")


def check_property_names(given: Mapping[str, Any]) -> None:
    """Raise for a property that looks like one of our fields (``readonly`` must not be ignored), or is Java's."""
    check_java_names(given)
    for name in given:
        for own in OWN_FIELDS:
            if SequenceMatcher(None, _letters(name), _letters(own)).ratio() >= _LOOKS_LIKE:
                raise ConfigurationError(
                    f"extra field {name!r}", None, f"is not a property of Kafka. Write {own}, beside the properties"
                )


def _letters(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


def pem_or_file(name: str, prefix: str, value: Any) -> dict[str, str]:
    """Read a certificate or key, as PEM or the path of a file, as the librdkafka property for it."""
    text = text_of(name, value, secret=True).strip()
    if PEM_MARK in text:
        return {f"{prefix}.pem": text + "\n"}
    if "\n" in text:
        raise ConfigurationError(name, None, f"is neither PEM ({PEM_MARK} …) nor the path of a file")
    return {f"{prefix}.location": text}


def text_of(name: str, value: Any, *, secret: bool = False) -> str:
    """Read a string. The value of a secret field is not shown."""
    if not isinstance(value, str):
        raise ConfigurationError(name, None if secret else value, "must be a string")
    return value


def choice_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Read one of the choices, in any case."""
    if isinstance(value, str) and value.strip().upper() in choices:
        return value.strip().upper()
    raise ConfigurationError(name, value, f"must be one of {', '.join(choices)}")


def group_prefix_of(value: Any) -> str:
    """Read a prefix of a group's name."""
    text = text_of("lease_group_prefix", value)
    if not _PREFIX.fullmatch(text):
        raise ConfigurationError("lease_group_prefix", value, "must be at most 100 letters, digits, dots, _ or -")
    return text


def patterns_of(name: str, value: Any) -> tuple[str, ...]:
    """Read patterns that keep groups: a list, a JSON list, or a string with commas or line ends between them."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            parts = chain.from_iterable(split_patterns(name, line) for line in value.split("\n"))
            return check_patterns(name, filter(None, parts))
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise ConfigurationError(name, value, 'must be a list of group names or patterns, e.g. ["connect-*"]')
    return check_patterns(name, chain.from_iterable(spellings_of(item) for item in value if item.strip()))


def parse_object(text: str) -> dict[str, Any] | None:
    """Parse a JSON object; ``None`` for anything else, and if an object in it has a name twice."""
    try:
        value = read_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def read_json(text: str) -> Any:
    """Return parsed JSON. Raises ``ValueError``, whose text is the remedy, for a name that is twice in an object."""
    return json.loads(text, object_pairs_hook=each_once)


def each_once(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """Return an object of its names and values. Raises ``ValueError`` for a name that is twice: one would be lost."""
    pairs = list(pairs)
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("has a name twice in one place, so that one of them would be lost: write each once")
    return found


def json_object_of(field: str, value: Any, what: str) -> dict[str, Any]:
    """Read an object that the form may send as text. The error does not show it: there may be a secret in it."""
    if isinstance(value, str):
        value = parse_object(value)
    if not isinstance(value, dict):
        raise ConfigurationError(field, None, f"write {what}, each name once")
    return value
