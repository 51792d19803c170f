"""The throw-away Airflow of the tests: what it leaves out is checked all the same."""

import os
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, SchemaError, ValidationError, validate

from tests.dags.airflow_env import UnchangedDags


def test_a_schema_that_is_refused_is_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(SchemaError):
            Draft202012Validator.check_schema({"type": "no type"})


def test_each_value_is_checked_by_a_schema_that_was_accepted_before() -> None:
    for _ in range(2):
        validate(1, {"type": "integer"})
        with pytest.raises(ValidationError):
            validate("one", {"type": "integer"})


def test_dags_are_parsed_and_written_again_when_a_file_or_a_default_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []

    def parse(dag_folder: Path, **named: Any) -> list[str]:
        return [*(path.read_text() for path in dag_folder.glob("*.py")), os.environ.get("KAFKA_GROUPS_DEFAULTS", "")]

    unchanged = UnchangedDags(parse, lambda bag, name: written.append(f"{name}: {', '.join(bag)}"))

    def run() -> None:
        unchanged.write(unchanged.parse(tmp_path, bundle_name="b"), "b")

    (tmp_path / "one.py").write_text("first")
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", "old")
    run()
    run()
    assert written == ["b: first, old"]
    (tmp_path / "one.py").write_text("second")
    run()
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", "new")
    run()
    assert written[1:] == ["b: second, old", "b: second, new"]
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", "old")
    run()
    assert written[3:] == ["b: second, old"], "what is parsed already is written again after something else"
    unchanged.write(["other"], "b")
    run()
    assert written[4:] == ["b: other", "b: second, old"]
