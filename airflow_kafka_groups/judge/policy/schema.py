"""The JSON schema of policy files, which editors use too, and its errors in words."""

from __future__ import annotations

import json
import math
import sys
from functools import cache
from importlib.resources import files
from typing import Any

from airflow_kafka_groups.judge.policy.yaml_lines import Path, Problems, did_you_mean

SCHEMA_FILE = "policy.schema.json"
NEEDED = ("version", "rules")
"""The keys that a policy must have."""


@cache
def policy_schema() -> dict[str, Any]:
    """Return the schema."""
    schema: dict[str, Any] = json.loads((files(__package__) / SCHEMA_FILE).read_text("utf-8"))
    return schema


@cache
def _validator() -> Any:
    """Return the validator. To JSON, ``2.0`` is an integer, and ``.nan`` a number that exceeds no limit."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    def is_integer(_: Any, value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    def is_number(checker: Any, value: Any) -> bool:
        if is_integer(checker, value):
            return abs(int(value)) <= sys.float_info.max  # an integer may have any number of digits
        return isinstance(value, float) and math.isfinite(value)

    types = Draft202012Validator.TYPE_CHECKER.redefine_many({"integer": is_integer, "number": is_number})
    return extend(Draft202012Validator, type_checker=types)


def check_schema(problems: Problems) -> None:
    """Add what the schema forbids. Each description in the schema is the remedy."""
    for error in _validator()(policy_schema()).iter_errors(problems.document.value):
        path: Path = tuple(error.absolute_path)
        if error.instance is None and not path:
            problems.add(path, "is empty: begin with 'version: 1', and 'rules:' with at least one rule")
            continue
        if error.validator == "additionalProperties":
            known = list(error.schema["properties"])
            for key in sorted(set(error.instance) - set(known)):
                problems.add((*path, key), f"is not a setting; {did_you_mean(key, known)}")
        elif error.validator == "required":
            for name in sorted(set(error.validator_value) - set(error.instance)):
                problems.add(path, f"lacks {name!r}: add it")
        else:
            value = "" if isinstance(error.instance, dict | list) else f"(got {error.instance!r}) "
            wanted = error.schema.get("description", error.message)
            problems.add(path, f"{value}must be as follows: {wanted}")
