"""The report of a clean-up, what it shows beside the plan, and the report tab of a run over many clusters."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.models import import_all_models
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.sdk.exceptions import AirflowSkipException
from airflow.utils import session as sessions
from sqlalchemy import create_engine, insert
from sqlalchemy.orm import Session, configure_mappers

from airflow_kafka_groups.change.keep_alive import KeepAliveRequest, keep_alive
from airflow_kafka_groups.change.restore.change_offsets import ChangeTerms
from airflow_kafka_groups.exceptions import ConfigurationError, MaintenanceError
from airflow_kafka_groups.hooks.links import REPORT_XCOM
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan, load_plan
from airflow_kafka_groups.operators.plan import PlanCleanupOperator
from airflow_kafka_groups.operators.report import CleanupReportOperator
from airflow_kafka_groups.plugins.report_files import cluster_of, named_reports, newest_by_cluster
from airflow_kafka_groups.report.facts import ReportFacts, gather_facts
from airflow_kafka_groups.report.html import make_report, render_report
from airflow_kafka_groups.report.trend import point_of
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.records import entries, kill_before_outcome
from tests.unit.change.scene import LATER
from tests.unit.operators import scene


@pytest.fixture
def planned(admin: FakeAdmin, tmp_path: Path) -> dict[str, Any]:
    return scene.planned_once(admin, tmp_path, ["a", "<script>"], ["live"], backed_up=True)


def report(storage: Path, plan_id: str) -> dict[str, Any]:
    return scene.run(CleanupReportOperator, storage, plan_id=plan_id)


def test_a_plan_that_never_ran_is_reported(planned: dict[str, Any], tmp_path: Path) -> None:
    summary = report(tmp_path, planned["plan_id"])
    assert (summary["dry_run"], summary["runs"], summary["outcomes"]) == (None, 0, {})
    assert summary["counts"] == planned["counts"]


def test_who_used_a_planned_group_last_is_in_the_report(admin: FakeAdmin, tmp_path: Path) -> None:
    found = scene.plan_of_used(admin, tmp_path)
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
    scene.apply(tmp_path, planned, dry_run=True)
    summary = report(tmp_path, planned["plan_id"])
    assert (summary["dry_run"], summary["outcomes"]) == (True, {"would_delete": 2})


def test_a_deletion_is_reported_with_its_files_and_escaped_ids(planned: dict[str, Any], tmp_path: Path) -> None:
    scene.apply(tmp_path, planned, dry_run=True)
    scene.apply(tmp_path, planned)
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
    scene.apply(tmp_path, planned, dry_run=True)
    (record,) = entries(tmp_path, "ended")
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
    scene.apply(tmp_path, planned)
    kill_before_outcome(tmp_path)
    summary = report(tmp_path, planned["plan_id"])
    assert (summary["runs"], summary["outcomes"]) == (1, {"unknown": 2})
    page = (tmp_path / scene.CLUSTER / "reports" / f"{planned['plan_id']}.html").read_text()
    assert "its end is not recorded" in page
    assert f"--yes {planned['plan_id']}" in page
    assert "take <code>--yes</code> out for a dry run" in page


# What a report shows beside the plan, and the report tab of a run over many clusters.


@pytest.fixture
def plan(admin: FakeAdmin, tmp_path: Path) -> DeletionPlan:
    """Return a plan of the groups a and b, with verdicts."""
    admin.groups = {name: FakeGroup(protocol_type="") for name in ("a", "b", "live")}
    snapshot_id = scene.take_snapshot(tmp_path)
    scene.judge(tmp_path, snapshot_id, stale={"a", "b"})
    return load_plan(Layout(tmp_path, scene.CLUSTER), scene.plan(tmp_path, max_share=1)["plan_id"])


def gather(tmp_path: Path, plan: DeletionPlan) -> ReportFacts:
    return gather_facts(Layout(tmp_path, scene.CLUSTER), plan, point_of(plan, {}))


def test_the_facts_are_those_of_the_files(tmp_path: Path, plan: DeletionPlan) -> None:
    facts = gather(tmp_path, plan)
    assert facts.judged["group_id"].to_pylist() == ["a", "b", "live"]
    assert facts.judged["idle_seconds"].to_pylist() == [scene.DAYS * 86_400] * 3
    assert facts.judged["lag"][0].as_py() == 5
    assert [point.plan_id for point in facts.trend] == [plan.plan_id]
    assert (facts.kept_alive.meant, facts.storage, facts.notes) == ({}, str(tmp_path), [])


async def test_keep_alive_runs_are_read_with_their_times(admin: FakeAdmin, tmp_path: Path, plan: DeletionPlan) -> None:
    layout = Layout(tmp_path, scene.CLUSTER)
    request = KeepAliveRequest(group_ids=("live",), observe_seconds=0, offsets_retention_minutes=1_440)
    await keep_alive(admin, layout, request, ChangeTerms(dry_run=False))
    known = gather(tmp_path, plan).kept_alive
    assert abs(known.meant["live"].at - known.verified["live"]) < timedelta(minutes=1)
    assert known.meant["live"].until - known.verified["live"] >= timedelta(days=1)


def test_what_is_gone_or_damaged_is_left_out_and_said(tmp_path: Path, plan: DeletionPlan) -> None:
    layout = Layout(tmp_path, scene.CLUSTER)
    layout.verdict_summary(plan.snapshot_id).unlink()
    max(tmp_path.glob("_journal/*/log/*.json")).write_text("{")
    reports = tmp_path / scene.CLUSTER / "reports"
    for file in reports.iterdir():
        file.unlink()
    reports.rmdir()
    reports.write_text("no folder")
    facts = gather(tmp_path, plan)
    assert (facts.judged, facts.kept_alive.meant) == (None, {})
    assert [note.partition(":")[0] for note in facts.notes] == [
        "Without idle times and lag of all groups",
        "Without the trend",
        "Without keep-alive runs",
    ]
    page = render_report(plan, facts=facts, now=LATER)
    assert page.count("Without ") == 3
    assert "Idle for" in page, "of the planned groups"


def test_verdicts_with_a_number_that_is_no_time_fail_no_report(tmp_path: Path, plan: DeletionPlan) -> None:
    folder = Layout(tmp_path, scene.CLUSTER).verdicts(plan.snapshot_id)
    (path,) = Path(str(folder)).glob("*.parquet")
    table = pq.read_table(path)
    place = table.schema.get_field_index("idle_seconds")
    pq.write_table(table.set_column(place, "idle_seconds", pa.array([1e300] * len(table))), path)
    facts = gather(tmp_path, plan)
    assert (facts.judged, len(facts.notes)) == (None, 1)


def test_a_report_and_the_trend_are_written_together(tmp_path: Path, plan: DeletionPlan) -> None:
    layout = Layout(tmp_path, scene.CLUSTER)
    path, _ = make_report(layout, plan)
    assert Path(path).read_text().count('<a href="trend.html">') == 1
    assert "1 run since" in (tmp_path / scene.CLUSTER / "reports" / "trend.html").read_text()


def test_a_deletion_by_name_is_no_run_of_the_trend(admin: FakeAdmin, tmp_path: Path, plan: DeletionPlan) -> None:
    """It counts all groups and no verdicts: the chart showed a cluster in which nothing lives."""
    layout = Layout(tmp_path, scene.CLUSTER)
    make_report(layout, plan)
    done = scene.delete(tmp_path, group_ids=["live"], dry_run=False)
    named = load_plan(layout, done["plan_id"])
    make_report(layout, named)
    reports = tmp_path / scene.CLUSTER / "reports"
    runs = json.loads((reports / "trend.json").read_text())["runs"]
    assert [run["plan_id"] for run in runs] == [plan.plan_id]
    assert [point.plan_id for point in gather(tmp_path, named).trend] == [plan.plan_id]
    assert done["plan_id"] not in (reports / "trend.html").read_text()


def test_the_trend_knows_what_was_deleted(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.groups = {name: FakeGroup(protocol_type="") for name in ("a", "b", "live")}
    snapshot_id = scene.take_snapshot(tmp_path)
    scene.judge(tmp_path, snapshot_id, stale={"a", "b"})
    planned = scene.plan(tmp_path, max_share=1)
    scene.back_up(tmp_path, planned)
    scene.apply(tmp_path, planned, lease=False)
    layout = Layout(tmp_path, scene.CLUSTER)
    plan = load_plan(layout, planned["plan_id"])
    make_report(layout, plan)
    (run,) = json.loads((tmp_path / scene.CLUSTER / "reports" / "trend.json").read_text())["runs"]
    assert (run["outcomes"], run["dry_run"]) == ({"deleted": 2}, False)


CLUSTERS = 1_024
TASKS = ("plan", "approve", "report")
FLEET = "/data/_fleet/reports/20260101T000000Z-00000000.html"


def path_of(cluster: int) -> str:
    return f"/data/c{cluster:04}/reports/20260101T000000Z-{cluster:08x}.html"


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each cluster's tasks name its report: a cluster is through before the next one begins."""
    import_all_models()  # type: ignore[no-untyped-call]  # Airflow's own
    configure_mappers()  # otherwise done within the package, for whose own warnings tests fail
    engine = create_engine("sqlite://")
    TaskInstance.metadata.create_all(engine, [TaskInstance.__table__, XComModel.__table__])
    start = datetime(2026, 1, 1, tzinfo=UTC)
    named = [(f"clean_up.{task}", index, path_of(index)) for index in range(CLUSTERS) for task in TASKS]
    rows = [
        {
            "dag_run_id": 1,
            "dag_id": "cleanup_fleet",
            "run_id": "r",
            "key": REPORT_XCOM,
            "task_id": task_id,
            "map_index": map_index,
            "value": value,
            "timestamp": start + timedelta(seconds=number),
        }
        for number, (task_id, map_index, value) in enumerate([*named, ("fleet", -1, FLEET)])
    ]
    with engine.begin() as connection:
        connection.execute(insert(XComModel), rows)

    @contextmanager
    def session() -> Iterator[Session]:
        with Session(engine) as opened:
            yield opened

    monkeypatch.setattr(sessions, "create_session", session)


def test_every_cluster_s_report_is_found(database: None) -> None:
    found = named_reports("cleanup_fleet", "r")
    assert {report.path for report in found} == {FLEET, *map(path_of, range(CLUSTERS))}
    assert {report.task_id for report in found} == {"clean_up.report", "fleet"}
    assert named_reports("cleanup_fleet", "another") == []


def test_every_cluster_has_its_trend(database: None) -> None:
    assert [cluster_of(report) for report in newest_by_cluster("cleanup_fleet")] == [
        f"c{index:04}" for index in range(CLUSTERS)
    ]
