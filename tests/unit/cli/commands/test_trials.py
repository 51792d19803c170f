"""A plan of the command line is a trial: none of the runs, and not what explain goes by; nor is a dry run one."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.plan import make_plan as plan_snapshot
from airflow_kafka_groups.ledger.audit import read_history
from airflow_kafka_groups.ledger.deletion_plan import load_plan
from airflow_kafka_groups.storage.layout import Layout, utc_now
from tests.fakes.admin import FakeAdmin
from tests.unit.cli.commands.conftest import Cli
from tests.unit.operators import scene
from tests.unit.operators.scene import CLUSTER


def trend(storage: Path) -> list[tuple[str, bool | None]]:
    path = storage / CLUSTER / "reports" / "trend.json"
    runs = json.loads(path.read_text())["runs"] if path.exists() else []
    return [(run["plan_id"], run["dry_run"]) for run in runs]


def test_a_trial_is_no_run_of_the_trend_until_it_is_applied(
    admin: FakeAdmin, planned: dict[str, Any], stored: Cli, tmp_path: Path
) -> None:
    before = trend(tmp_path)
    assert [name for name, _ in before] == [planned["plan_id"]]
    _, trial, _ = stored("plan", "--max-share", "1")
    assert load_plan(Layout(tmp_path, CLUSTER), trial["plan_id"]).trial
    stored("apply", trial["plan_id"])
    assert (trial["plan_id"] not in dict(trend(tmp_path)), planned["plan_id"] in dict(trend(tmp_path))) == (True, True)
    words = ("--digest", trial["digest"])
    stored("backup", "--plan-id", trial["plan_id"], *words)
    assert stored("apply", trial["plan_id"], *words, "--yes")[1]["counts"]["deleted"] > 0
    assert dict(trend(tmp_path))[trial["plan_id"]] is False


def test_explain_goes_by_the_newest_plan_of_the_dags(
    admin: FakeAdmin, planned: dict[str, Any], stored: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_snapshot, "utc_now", lambda: utc_now() + timedelta(seconds=2))  # ids begin with it
    _, trial, _ = stored("plan", "--include", "nothing-*")
    assert stored("explain", "a")[1]["plan_id"] == planned["plan_id"]
    assert stored("explain", "a", "--plan-id", trial["plan_id"])[1]["plan_id"] == trial["plan_id"]


def test_without_another_plan_explain_goes_by_the_newest_trial(admin: FakeAdmin, stored: Cli, tmp_path: Path) -> None:
    scene.judged_once(admin, tmp_path, ["a", "b"])
    made = [stored("plan", "--max-share", "1")[1]["plan_id"] for _ in range(2)]
    assert stored("explain", "a")[1]["plan_id"] == max(made)


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
