"""What an Airflow Variable that stops deletions may say. ``test_airflow_lookups.py`` has those that cannot be read."""

from typing import Any

import pytest
from airflow.sdk import Variable

from airflow_kafka_groups.hooks.airflow_lookups import why_variable_stops

pytestmark = pytest.mark.safety


def test_another_variable_may_be_named_and_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_HALT", "yes")
    assert why_variable_stops("halt") == "the Airflow Variable 'halt' is set"
    assert why_variable_stops(None) is None


def test_a_variable_that_cannot_be_read_stops_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("the secrets backend is away: token=abc")

    monkeypatch.setattr(Variable, "get", broken)
    why = why_variable_stops("halt") or ""
    assert "could not be read" in why
    assert "abc" not in why
