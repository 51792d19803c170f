"""The exception tree is the one that its module draws."""

from __future__ import annotations

import inspect
import re

from airflow_kafka_groups import exceptions
from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError


def test_the_drawing_shows_every_error_in_its_place() -> None:
    drawn: dict[str, int] = {}
    for line in (exceptions.__doc__ or "").splitlines():
        if found := re.match(r"([\s│├└─]*)(\w+Error)\b", line):
            drawn[found[2]] = len(found[1]) // 4
    defined = {
        name: len([base for base in cls.__mro__ if issubclass(base, KafkaGroupsError)]) - 1
        for name, cls in inspect.getmembers(exceptions, inspect.isclass)
        if issubclass(cls, KafkaGroupsError)
    }
    base = drawn["KafkaGroupsError"]
    assert {name: depth - base for name, depth in drawn.items()} == defined


def test_bad_input_names_field_value_and_remedy_but_no_secret() -> None:
    assert str(ConfigurationError("port", "x", "give a number")) == "port (got 'x'): give a number"
    assert str(ConfigurationError("password", None, "is missing")) == "password: is missing"
    assert len(str(ConfigurationError("ids", "x" * 5000, "too long"))) < 200
