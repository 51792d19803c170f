"""A dry run of a plan that was applied: what it says, and what it leaves as it was."""

import json
from pathlib import Path
from typing import Any

from airflow_kafka_groups.ledger.deletion_plan import load_plan
from airflow_kafka_groups.ledger.journal.journal import read_history
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.unit.cli.commands.conftest import Cli
from tests.unit.operators.scene import CLUSTER


def trend(storage: Path) -> list[tuple[str, bool | None]]:
    path = storage / CLUSTER / "reports" / "trend.json"
    runs = json.loads(path.read_text())["runs"] if path.exists() else []
    return [(run["plan_id"], run["dry_run"]) for run in runs]


def test_a_dry_run_of_an_applied_plan_changes_neither_its_report_nor_what_the_journal_says(
    admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, tmp_path: Path
) -> None:
    words = ("apply", backed_up["plan_id"])
    stored(*words)
    stored(*words, "--digest", backed_up["digest"], "--yes")
    page = tmp_path / CLUSTER / "reports" / f"{backed_up['plan_id']}.html"
    before, known = page.read_bytes(), trend(tmp_path)
    code, found, said = stored(*words)
    assert (code, found["counts"]["gone"], str(page) in said) == (0, len(admin.deleted), True)
    assert (page.read_bytes(), trend(tmp_path)) == (before, known)
    layout = Layout(tmp_path, CLUSTER)
    history = read_history(layout, load_plan(layout, backed_up["plan_id"]).kafka_cluster_id)
    for reset in (history.idle_resets()["a"], history.idle_resets(backed_up["plan_id"])["a"]):
        assert reset.code == "deleted_before"
        assert reset.reason.startswith(f"run {history.runs[1].run_id} deleted it at ")
        assert reset.at == history.lives()["a"].at, "the later look still counts"


def test_a_report_that_lacks_a_run_is_written_by_a_dry_run_too(
    admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, tmp_path: Path
) -> None:
    """The process that deleted may have died before it wrote the report."""
    page = tmp_path / CLUSTER / "reports" / f"{backed_up['plan_id']}.html"
    not_run_yet = page.read_bytes()
    stored("apply", backed_up["plan_id"], "--digest", backed_up["digest"], "--yes")
    page.write_bytes(not_run_yet)
    stored("apply", backed_up["plan_id"])
    assert b"has not been applied" not in page.read_bytes()
