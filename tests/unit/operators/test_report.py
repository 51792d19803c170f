import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from airflow_kafka_groups.exceptions import ConfigurationError, MaintenanceError
from airflow_kafka_groups.hooks.links import REPORT_XCOM
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.operators.plan import PlanCleanupOperator
from airflow_kafka_groups.operators.report import CleanupReportOperator
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.operators import scene


@pytest.fixture
def planned(admin: FakeAdmin, tmp_path: Path) -> dict[str, Any]:
    return scene.planned_once(admin, tmp_path, ["a", "<script>"], ["live"], backed_up=True)


def report(storage: Path, plan_id: str) -> dict[str, Any]:
    operator = CleanupReportOperator(task_id="t", storage_path=str(storage), cluster=scene.CLUSTER, plan_id=plan_id)
    return operator.execute({})


def delete(storage: Path, planned: dict[str, Any], **arguments: Any) -> None:
    of_plan = {"plan_id": planned["plan_id"], "plan_digest": planned["digest"]}
    DeleteGroupsOperator(task_id="t", storage_path=str(storage), cluster=scene.CLUSTER, **of_plan, **arguments).execute(
        {}
    )


def test_a_plan_that_never_ran_is_reported(planned: dict[str, Any], tmp_path: Path) -> None:
    summary = report(tmp_path, planned["plan_id"])
    assert (summary["dry_run"], summary["runs"], summary["outcomes"]) == (None, 0, {})
    assert summary["counts"] == planned["counts"]


def test_who_used_a_planned_group_last_is_in_the_report(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.groups = {"a": FakeGroup(members=2), "b": FakeGroup(), "live": FakeGroup()}
    scene.take_snapshot(tmp_path)
    admin.groups["a"].members = 0
    snapshot_id = scene.take_snapshot(tmp_path)
    scene.judge(tmp_path, snapshot_id, stale={"a", "b"})
    found = scene.plan(tmp_path, snapshot_id=snapshot_id, max_share=1, min_idle_seconds=0.001)
    report(tmp_path, found["plan_id"])
    page = (tmp_path / scene.CLUSTER / "reports" / f"{found['plan_id']}.html").read_text()
    assert page.count("UTC: 2 member(s), c at 127.0.0.1; topics t</bdi>") == 1
    assert page.count("<bdi>-</bdi>") == 1


def test_without_members_in_any_snapshot_the_report_has_no_column_of_them(
    planned: dict[str, Any], tmp_path: Path
) -> None:
    report(tmp_path, planned["plan_id"])
    page = (tmp_path / scene.CLUSTER / "reports" / f"{planned['plan_id']}.html").read_text()
    assert "Last members" not in page


def test_a_dry_run_is_reported_as_one(planned: dict[str, Any], tmp_path: Path) -> None:
    delete(tmp_path, planned, dry_run=True)
    summary = report(tmp_path, planned["plan_id"])
    assert (summary["dry_run"], summary["outcomes"]) == (True, {"would_delete": 2})


def test_a_deletion_is_reported_with_its_files_and_escaped_ids(planned: dict[str, Any], tmp_path: Path) -> None:
    delete(tmp_path, planned, dry_run=True)
    delete(tmp_path, planned)
    summary = report(tmp_path, planned["plan_id"])
    assert (summary["dry_run"], summary["outcomes"], summary["verified_gone"]) == (False, {"deleted": 2}, 2)
    assert json.loads(json.dumps(summary)) == summary
    page = Path(summary["report_path"]).read_text()
    assert "&lt;script&gt;" in page
    assert page.count("<script>") == 1, "that of the package"
    assert f"backups/{planned['plan_id']}.json" in page


def test_no_plan_skips_the_task(tmp_path: Path) -> None:
    with pytest.raises(AirflowSkipException):
        report(tmp_path, "")


def test_a_plan_or_record_that_cannot_be_read_fails_the_task(planned: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(MaintenanceError):
        report(tmp_path, "20200101T000000Z-00000000")
    with pytest.raises(ConfigurationError):
        report(tmp_path, "../../x")
    delete(tmp_path, planned, dry_run=True)
    (record,) = tmp_path.glob("_journal/*/*/ended.json")
    record.write_text("{")
    with pytest.raises(MaintenanceError, match="damaged"):
        report(tmp_path, planned["plan_id"])


def test_who_writes_a_report_names_it_for_the_tab(admin: FakeAdmin, tmp_path: Path) -> None:
    named: list[tuple[str, str]] = []
    context: Any = {"ti": SimpleNamespace(xcom_push=lambda key, value: named.append((key, value)))}
    admin.groups = {"a": FakeGroup(), "live": FakeGroup()}
    scene.judge(tmp_path, scene.take_snapshot(tmp_path), stale={"a"})
    common: dict[str, Any] = {"task_id": "t", "storage_path": str(tmp_path), "cluster": scene.CLUSTER}
    planned = PlanCleanupOperator(**common, max_share=1).execute(context)
    CleanupReportOperator(**common, plan_id=planned["plan_id"]).execute(context)
    path = tmp_path / scene.CLUSTER / "reports" / f"{planned['plan_id']}.html"
    assert path.exists()
    assert named == [(REPORT_XCOM, str(path))] * 2


def test_a_run_that_was_killed_is_reported(planned: dict[str, Any], tmp_path: Path) -> None:
    """The page that an operator opens first: what may be deleted, by whom, and the command that undoes it."""
    delete(tmp_path, planned)
    (ended,) = (tmp_path / "_journal").glob("*/00000001/ended.json")
    ended.unlink()
    for name in sorted(ended.parent.glob("0*.json"))[1:]:
        name.unlink()  # killed between the intent and the outcome
    summary = report(tmp_path, planned["plan_id"])
    assert (summary["runs"], summary["outcomes"]) == (1, {"unknown": 2})
    page = (tmp_path / scene.CLUSTER / "reports" / f"{planned['plan_id']}.html").read_text()
    assert "its end is not recorded" in page
    assert f"--yes {planned['plan_id']}" in page
    assert "take <code>--yes</code> out for a dry run" in page
