"""The throw-away Airflow of the tests: what it leaves out is checked all the same."""

from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator, SchemaError, ValidationError, validate


def test_a_schema_that_is_refused_is_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(SchemaError):
            Draft202012Validator.check_schema({"type": "no type"})


def test_each_value_is_checked_by_a_schema_that_was_accepted_before() -> None:
    for _ in range(2):
        validate(1, {"type": "integer"})
        with pytest.raises(ValidationError):
            validate("one", {"type": "integer"})
