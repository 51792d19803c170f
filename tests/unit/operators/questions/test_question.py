"""What an approver is shown: what would go, who used it last, and no markup from names of groups."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator

from airflow_kafka_groups.change.plan.question import question
from airflow_kafka_groups.ledger.deletion_plan import load_plan
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.operators import scene
from tests.unit.operators.test_approval import Airflow, ask, context


@pytest.fixture
def planned(backed_up: dict[str, Any]) -> dict[str, Any]:
    return backed_up


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Airflow:
    return Airflow(monkeypatch)


def test_the_question_shows_what_would_go(tmp_path: Path, planned: dict[str, Any], airflow: Airflow) -> None:
    ask(tmp_path, planned).execute(context())
    (asked,) = airflow.asked
    assert asked.subject == "Delete 2 consumer groups of prod?"
    judged_by = "Judged by the history of snapshots only; the log of commits was not read"
    for text in ("2 groups", planned["plan_id"], planned["digest"], "| a |", "because the test says so"):
        assert text in (asked.body or "")
    for text in (judged_by, planned["evidence"]):
        assert text in (asked.body or "")
    assert list((tmp_path / scene.CLUSTER / "reports").glob("*.html"))


def test_what_a_judgement_rests_on_is_shown_to_its_end(tmp_path: Path, planned: dict[str, Any]) -> None:
    plan = load_plan(Layout(tmp_path, scene.CLUSTER), planned["plan_id"])
    evidence = {"sentence": f"snapshots only; {'no jar ' * 30} submit with its remedy"}
    assert "submit with its remedy." in question(replace(plan, evidence=evidence), "report", "it has to be")


@pytest.mark.parametrize(
    ("group_id", "shown"),
    [
        ("https://a.b", "https:&#8203;//a.b"),
        ("WWW.a.b", "WWW&#8203;.a.b"),
        ("a@b.c", "a&#8203;&#64;b.c"),
        ("_x_", "&#95;x&#95;"),
        ("\u05d0\u05d1 1", "&#8296;\u05d0\u05d1 1&#8297;"),
        ("a\u202e\u2069b", "a&#92;u202e&#92;u2069b"),
        ("y" * 32_000, f"{'y' * 200}… (32,000 characters)".replace("…", "&#8230;")),
    ],
)
def test_an_id_is_no_link_and_no_emphasis_and_not_too_long(
    admin: FakeAdmin, tmp_path: Path, group_id: str, shown: str
) -> None:
    found = scene.plan_of(admin, tmp_path, [group_id])
    text = question(load_plan(Layout(tmp_path, scene.CLUSTER), found["plan_id"]), "s3://x/report.html", "why")
    assert f"| {shown} |" in text
    assert ": s3://x/report.html" in text


def test_who_used_a_group_last_is_in_the_question(
    admin: FakeAdmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.groups = {"a": FakeGroup(members=2), "b": FakeGroup(), "live": FakeGroup()}
    scene.take_snapshot(tmp_path)
    admin.groups["a"].members = 0
    snapshot_id = scene.take_snapshot(tmp_path)
    scene.judge(tmp_path, snapshot_id, stale={"a", "b"})
    found = scene.plan(tmp_path, snapshot_id=snapshot_id, max_share=1, min_idle_seconds=0.001)
    asked: list[str] = []
    monkeypatch.setattr(ApprovalOperator, "execute", lambda self, context: asked.append(self.body))
    task = SimpleNamespace(dag_id="d", run_id="r", xcom_push=lambda key, value: None)
    ask(tmp_path, found).execute({"ti": task})  # type: ignore[typeddict-item]
    assert re.search(r"\| a \| because .* \| .* UTC: 2 member\(s\), c at 127.0.0.1; topics t \|", asked[0])
    assert re.search(r"\| b \| because .* \| not known \|", asked[0])


def test_names_of_groups_are_not_taken_for_markup(admin: FakeAdmin, tmp_path: Path) -> None:
    evil = "x|<img src=x>[y](http://z)`*_"
    found = scene.plan_of(admin, tmp_path, [evil])
    plan = load_plan(Layout(tmp_path, scene.CLUSTER), found["plan_id"])
    text = question(plan, "/x/report.html", "why")
    assert "&#124;&#60;img src=x&#62;&#91;y&#93;(http:&#8203;//z)&#96;&#42;&#95;" in text
    assert not set("<>[]`") & set(text)
    assert "Report with all groups: /x/report.html" in text


def test_the_question_leads_to_the_report(
    tmp_path: Path, planned: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    named: dict[str, str] = {}
    task = SimpleNamespace(dag_id="d", run_id="r 1", xcom_push=lambda key, value: named.update({key: value}))

    def asked(self: Any, context: Any) -> None:
        assert "[Report with all groups](/dags/d/runs/r%201/plugin/kafka-groups-report)" in self.body

    monkeypatch.setattr(ApprovalOperator, "execute", asked)
    ask(tmp_path, planned).execute({"ti": task})  # type: ignore[typeddict-item]
    (report,) = (tmp_path / scene.CLUSTER / "reports").glob(f"{planned['plan_id']}*.html")
    assert named == {"kafka_groups_report": str(report)}
    monkeypatch.setenv("AIRFLOW__KAFKA_GROUPS__REPORT_TAB", "False")
    monkeypatch.setattr(ApprovalOperator, "execute", lambda self, context: self.body)
    assert "](" not in ask(tmp_path, planned).execute({"ti": task})  # type: ignore[typeddict-item]
