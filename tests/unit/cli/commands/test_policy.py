"""Checking a policy file from the command line: no connection, no storage, no Airflow."""

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.cli.main import main
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.unit.judge.policy.files import write_policy
from tests.unit.operators import scene

DELETE_A = """\
version: 1
rules:
  - name: temp
    action: delete
    idle: 3d
    match: {groups: ["a*"]}
tests:
  - {group: a1, rule: temp, action: delete}
"""


@pytest.fixture
def manifest(admin: FakeAdmin, tmp_path: Path) -> Path:
    """Return the manifest of a snapshot with the groups a, b and live."""
    snapshot_id = scene.judged_once(admin, tmp_path, ["a", "b"], ["live"])
    return Path(str(Layout(tmp_path, scene.CLUSTER).manifest(snapshot_id)))


def check(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, Any, str]:
    capsys.readouterr()
    code = main(["policy", "check", *map(str, words), "--output", "json"])
    printed = capsys.readouterr()
    return code, json.loads(printed.out) if printed.out else None, printed.err


def test_a_valid_policy_passes_with_its_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found, said = check(capsys, write_policy(tmp_path, DELETE_A + "  - {group: b, action: keep}\n"))
    assert (code, found["rules"], found["warnings"], found["groups"]) == (0, 1, [], [])
    assert "its tests pass" in said


@pytest.mark.parametrize(
    ("text", "problem"),
    [(DELETE_A.replace("3d", "3 fortnights"), "line 5"), (DELETE_A.replace("group: a1", "group: b1"), "line 8")],
)
def test_a_wrong_policy_is_refused_with_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, problem: str
) -> None:
    code, found, said = check(capsys, write_policy(tmp_path, text))
    assert (code, found) == (2, None)
    assert problem in said


def test_what_an_edit_changes_is_shown_for_the_groups_of_a_snapshot(
    manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "old").mkdir()
    before = write_policy(tmp_path / "old", DELETE_A)
    after = write_policy(tmp_path, DELETE_A.replace('["a*"]', '["b*"]').replace("group: a1", "group: b1"))
    code, found, _ = check(capsys, after, "--against", manifest, "--before", before)
    deletes = "delete after 3d, 2 snapshots (rule 'temp')"
    keeps = "keep (rule 'default')"
    assert code == 0
    assert found["groups"] == [
        {"group_id": "a", "before": deletes, "after": keeps},
        {"group_id": "b", "before": keeps, "after": deletes},
    ]
    assert found["changed"] == 2


def test_without_a_policy_before_every_group_was_kept(
    manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, found, _ = check(capsys, write_policy(tmp_path, DELETE_A + 'protect: ["a"]\n'), "--against", manifest)
    assert [row["before"] for row in found["groups"]] == ["keep (no policy)"] * 3
    assert {row["group_id"]: row["after"] for row in found["groups"]}["a"] == "keep (protected)"


@pytest.mark.parametrize("name", ["nothing.json", "policy.yaml"])
def test_what_is_no_manifest_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    code, _, said = check(capsys, write_policy(tmp_path, DELETE_A), "--against", tmp_path / name)
    assert code == 2
    assert "--against" in said


def test_the_schema_is_printed_for_editors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "schema"]) == 0
    assert json.loads(capsys.readouterr().out)["properties"].keys() >= {"rules", "tests"}
