"""What a keep-alive run may be asked for."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_groups.change.keep_alive import KeepAliveRequest
from airflow_kafka_groups.exceptions import ConfigurationError


def test_named_groups_are_taken_once_and_whether_they_are_listed_or_not() -> None:
    assert KeepAliveRequest(group_ids=("a", "b", "a")).select(["b"]) == ["a", "b"]


def test_patterns_select_among_the_groups_that_are_listed() -> None:
    request = KeepAliveRequest(include=("a*",), exclude=("ab",))
    assert request.select(["a", "ab", "ac", "b"]) == ["a", "ac"]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "group_ids, include"),
        ({"group_ids": ("a",), "include": ("b",)}, "group_ids, include"),
        ({"group_ids": ("a",), "exclude": ("b",)}, "group_ids, include"),
        ({"group_ids": (1,)}, "group_ids"),
        ({"include": ("re:[",)}, "include"),
        ({"group_ids": ("a",), "assignors": ()}, "assignors"),
        ({"group_ids": ("a",), "assignors": ("",)}, "assignors"),
        ({"group_ids": ("a",), "offsets_retention_minutes": 0}, "offsets_retention_minutes"),
        ({"group_ids": ("a",), "offsets_retention_minutes": True}, "offsets_retention_minutes"),
        ({"group_ids": ("a",), "observe_seconds": -1}, "observe_seconds"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        KeepAliveRequest(**arguments)
