"""``explain`` says what ``apply`` does: each guard that would keep a planned group is named."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.cli.commands.conftest import Cli
from tests.unit.operators import scene


def explained_and_applied(stored: Cli, backed_up: dict[str, Any]) -> tuple[bool, str]:
    """Return whether ``explain`` says that the group a would be deleted, and what ``apply`` then makes of it."""
    plan_id, digest = backed_up["plan_id"], backed_up["digest"]
    _, found, _ = stored("explain", "a", "--plan-id", plan_id)
    _, done, said = stored("apply", plan_id, "--digest", digest, "--yes")
    assert done is not None, said
    return found["would_be_deleted"], {item["group_id"]: item["outcome"] for item in done["outcomes"]}["a"]


def test_control(admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli) -> None:
    assert explained_and_applied(stored, backed_up) == (True, "deleted")


def test_a_group_that_is_kept_alive(admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli) -> None:
    admin.groups["a"].protocol_type = "consumer"
    code, found, said = stored("keep-alive", "a", "--yes", "--allow-membership", "--observe-seconds", "0")
    assert code == 0, (found, said)
    assert explained_and_applied(stored, backed_up) == (False, "kept")


def test_no_pattern_is_to_be_edited_for_a_group_that_is_kept_alive(
    admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, tmp_path: Path
) -> None:
    """A new plan excludes it by the record of the run. Whoever follows the remedy must not loosen a pattern for it."""
    assert stored("keep-alive", "a", "--yes", "--allow-membership", "--observe-seconds", "0")[0] == 0
    newer = scene.plan(tmp_path, max_share=1)
    _, found, _ = stored("explain", "a", "--plan-id", newer["plan_id"])
    (row,) = [row for row in found["checks"] if row["check"] == "plan"]
    assert row["evidence"].startswith("kept (excluded): a keep-alive run")
    assert row["what_would_change_it"] == "time, and then a new plan"


def test_a_group_that_a_newer_snapshot_saw_in_use(
    admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, tmp_path: Path
) -> None:
    time.sleep(1.1)
    admin.groups["a"].members = 2
    scene.take_snapshot(tmp_path)
    admin.groups["a"].members = 0
    assert explained_and_applied(stored, backed_up) == (False, "kept")


def test_a_group_of_a_stopped_folder(admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, tmp_path: Path) -> None:
    (tmp_path / scene.CLUSTER / "STOP").write_text("on holiday\n")
    assert explained_and_applied(stored, backed_up) == (False, "kept")


def test_a_group_that_another_request_deleted_after_the_plan(
    admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, tmp_path: Path
) -> None:
    """Its idle time restarts with that deletion, so this plan keeps it."""
    scene.delete(tmp_path, group_ids=["a"], dry_run=False)
    admin.groups["a"] = FakeGroup()
    assert explained_and_applied(stored, backed_up) == (False, "kept")


def test_explain_looks_at_the_newest_plan_of_a_clean_up(
    admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, tmp_path: Path
) -> None:
    time.sleep(1.1)
    scene.delete(tmp_path, group_ids=["b"], dry_run=False)
    _, found, _ = stored("explain", "a")
    _, done, _ = stored("apply", backed_up["plan_id"])
    would = {item["group_id"]: item["outcome"] for item in done["outcomes"]}
    assert would["a"] == "would_delete"
    assert (found["plan_id"], found["would_be_deleted"]) == (backed_up["plan_id"], True)
