"""``explain`` has a row for what makes ``apply`` keep a complete plan, also where this group is no reason for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.admin import FakeAdmin
from tests.unit.cli.commands.conftest import Cli
from tests.unit.cli.commands.look.test_explain import of
from tests.unit.cli.commands.test_explain_answers import kept
from tests.unit.operators import scene


@pytest.mark.parametrize("value", ["incident", "maybe", "true"])
def test_the_variable_that_stops_deletions(
    value: str, admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_GROUPS_STOP", value)
    assert kept(stored, backed_up) == ["stop"]
    _, found, _ = stored("explain", "a")
    assert "kafka_groups_stop" in of(found, "stop")[0]["evidence"]


def test_a_variable_that_stops_nothing(
    admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_GROUPS_STOP", "no")
    assert stored("explain", "a")[1]["would_be_deleted"]


def test_a_plan_with_another_group_that_the_connection_protects_by_now(
    admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan is refused as it stands: none of its groups is deleted."""
    connection = '{"conn_type": "kafka_groups", "host": "b1:9092", "extra": {"protected_groups": ["b"]}}'
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", connection)
    assert kept(stored, backed_up, "a") == ["connection"]
    _, found, _ = stored("explain", "a")
    assert "'b'" in of(found, "connection")[-1]["evidence"]
    assert stored("explain", "b")[1]["kept_by"] == ["connection"], "once"


def test_a_plan_of_groups_that_were_named(
    admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, tmp_path: Path
) -> None:
    done = scene.delete(tmp_path, group_ids=["b"], dry_run=False)
    assert kept(stored, {"plan_id": done["plan_id"], "digest": done["plan_digest"]}, "b")[0] == "plan"


def test_a_backup_of_another_plan(admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, tmp_path: Path) -> None:
    manifest = tmp_path / scene.CLUSTER / "backups" / f"{backed_up['plan_id']}.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "plan_digest": "0" * 64}))
    assert kept(stored, backed_up) == ["recheck"]
