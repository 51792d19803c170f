"""Only a clear approval of this very plan deletes, and what the approver keeps is kept."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator

from airflow_kafka_groups.exceptions import ConfigurationError, PlanError
from airflow_kafka_groups.maintenance.plan.deletion_plan import load_plan
from airflow_kafka_groups.maintenance.storage import Layout
from airflow_kafka_groups.operators.approval import ApproveCleanupOperator, question
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.operators.support.approval_rules import why_approval
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.operators import scene

ANN = {"id": "42", "name": "Ann"}


@pytest.fixture
def planned(admin: FakeAdmin, tmp_path: Path) -> dict[str, Any]:
    admin.groups = {name: FakeGroup() for name in ("a", "b", "live")}
    snapshot_id = scene.take_snapshot(tmp_path)
    scene.judge(tmp_path, snapshot_id, stale={"a", "b"})
    found = scene.plan(tmp_path, snapshot_id=snapshot_id, max_share=1)
    scene.back_up(tmp_path, found)
    return found


def payload(planned: dict[str, Any], **changes: Any) -> dict[str, Any]:
    answer = {
        "required": True,
        "plan_id": planned["plan_id"],
        "plan_digest": planned["digest"],
        "chosen_options": ["Approve"],
        "params_input": {"confirm_groups": "2", "exclude_groups": []},
        "responded_at": "2026-01-01T00:00:00+00:00",
        "responded_by_user": ANN,
    }
    return {**answer, **changes}


def common(storage: Path, planned: dict[str, Any]) -> dict[str, Any]:
    return {
        "task_id": "t",
        "storage_path": str(storage),
        "cluster": scene.CLUSTER,
        "plan_id": planned["plan_id"],
        "plan_digest": planned["digest"],
    }


def delete(storage: Path, planned: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    arguments = {"approval_rule": "always", **common(storage, planned), **arguments}
    return DeleteGroupsOperator(**arguments).execute({})


def audit(done: dict[str, Any]) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(Path(done["audit_path"]).read_text())
    return record


def test_an_approved_plan_is_carried_out_and_the_approver_is_on_record(
    admin: FakeAdmin, tmp_path: Path, planned: dict[str, Any]
) -> None:
    done = delete(tmp_path, planned, approval=json.dumps(payload(planned)))
    assert sorted(admin.deleted) == ["a", "b"]
    assert audit(done)["actor"] == {"approved_by": "Ann (42)", "approved_at": "2026-01-01T00:00:00+00:00"}


def test_what_the_approver_keeps_is_kept_with_that_reason(
    admin: FakeAdmin, tmp_path: Path, planned: dict[str, Any]
) -> None:
    answers = {"confirm_groups": 2, "exclude_groups": ["a"]}
    done = delete(tmp_path, planned, approval=payload(planned, params_input=answers))
    assert admin.deleted == ["b"]
    assert done["kept"] == {"a": "Ann (42) kept it at the approval"}
    assert done["kept_reasons"] == {"excluded": 1}


REFUSED: list[tuple[Any, str]] = [
    (None, "no answer of a human"),
    ("null", "no answer of a human"),
    ("None", "no answer of a human"),
    ("{", "no answer of a human"),
    ([], "no answer of a human"),
    ({}, "no answer of a human"),
    ({"required": False}, "no answer of a human"),
]


@pytest.mark.parametrize(("given", "why"), REFUSED)
def test_no_answer_is_no_approval(
    admin: FakeAdmin, tmp_path: Path, planned: dict[str, Any], given: Any, why: str
) -> None:
    with pytest.raises(PlanError, match=f"nothing was deleted: .*{why}"):
        delete(tmp_path, planned, approval=given)
    assert admin.deleted == []


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"chosen_options": ["Reject"]}, "Reject"),
        ({"chosen_options": ["Approve", "Reject"]}, "Reject"),
        ({"chosen_options": []}, "answer was"),
        ({"chosen_options": "Approve"}, "answer was"),
        ({"chosen_options": None}, "answer was"),
        ({"params_input": None}, "None were confirmed"),
        ({"params_input": {}}, "None were confirmed"),
        ({"params_input": {"confirm_groups": ""}}, "'' were confirmed"),
        ({"params_input": {"confirm_groups": "3"}}, "'3' were confirmed"),
        ({"params_input": {"confirm_groups": 1}}, "1 were confirmed"),
        ({"params_input": {"confirm_groups": True}}, "True were confirmed"),
        ({"params_input": {"confirm_groups": "2", "exclude_groups": ["c"]}}, "misspelt"),
        ({"params_input": {"confirm_groups": "2", "exclude_groups": "a"}}, "cannot be read"),
        ({"params_input": {"confirm_groups": "2", "exclude_groups": [1]}}, "cannot be read"),
        ({"plan_digest": "0" * 64}, "another version"),
        ({"plan_id": "20260101T000000Z-00000000"}, "approval is of plan"),
        ({"responded_by_user": None}, "nobody is named"),
        ({"responded_by_user": {}}, "nobody is named"),
    ],
)
def test_an_answer_that_is_not_a_clear_approval_deletes_nothing(
    admin: FakeAdmin, tmp_path: Path, planned: dict[str, Any], changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(PlanError, match=why):
        delete(tmp_path, planned, approval=payload(planned, **changes))
    assert admin.deleted == []
    assert not (tmp_path / scene.CLUSTER / "audit").exists()


@pytest.mark.parametrize(
    ("rule", "cap", "groups", "dry_run", "asked"),
    [
        ("always", 100, 1, False, True),
        ("always", 100, 0, False, False),
        ("always", 100, 500, True, False),
        ("above_cap", 100, 100, False, False),
        ("above_cap", "100", 101, False, True),
        ("above_cap", 0, 1, False, True),
        ("never", 0, 500, False, False),
    ],
)
def test_when_somebody_has_to_approve(rule: str, cap: Any, groups: int, dry_run: bool, asked: bool) -> None:
    assert (why_approval(rule, cap, planned=groups, dry_run=dry_run) is not None) is asked


@pytest.mark.parametrize(
    "arguments", [{"approval_rule": "Never"}, {"approval_rule": ""}, {"approve_above": -1}, {"approve_above": "some"}]
)
def test_rules_that_are_unclear_delete_nothing(
    admin: FakeAdmin, tmp_path: Path, planned: dict[str, Any], arguments: dict[str, Any]
) -> None:
    with pytest.raises(ConfigurationError, match="appro"):
        delete(tmp_path, planned, **arguments)
    assert admin.deleted == []


def ask(storage: Path, planned: dict[str, Any], **arguments: Any) -> ApproveCleanupOperator:
    return ApproveCleanupOperator(**common(storage, planned), **arguments)


def test_the_question_shows_what_would_go(
    tmp_path: Path, planned: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def answered(self: Any, context: Any) -> Any:
        assert self.subject == "Delete 2 consumer groups of prod?"
        for text in ("2 groups", planned["plan_id"], planned["digest"], "| a |", "because the test says so"):
            assert text in self.body
        assert list((tmp_path / scene.CLUSTER / "reports").glob("*.html"))
        event = {
            "chosen_options": ["Approve"],
            "params_input": {"confirm_groups": "2", "exclude_groups": []},
            "responded_at": datetime(2026, 1, 1, tzinfo=UTC),
            "responded_by_user": ANN,
        }
        return self.execute_complete(context, event)

    monkeypatch.setattr(ApprovalOperator, "execute", answered)
    answer = ask(tmp_path, planned).execute({})
    assert json.loads(json.dumps(answer)) == payload(planned)


def test_a_dry_run_and_a_rule_that_lets_it_pass_ask_nobody(tmp_path: Path, planned: dict[str, Any]) -> None:
    for arguments in ({"dry_run": "True"}, {"approval_rule": "above_cap"}, {"approval_rule": "never"}):
        assert ask(tmp_path, planned, **arguments).execute({}) == {"required": False}


def test_names_of_groups_are_not_taken_for_markup(admin: FakeAdmin, tmp_path: Path) -> None:
    evil = "x|<img src=x>[y](http://z)`*_"
    admin.groups = {evil: FakeGroup(), "live": FakeGroup()}
    snapshot_id = scene.take_snapshot(tmp_path)
    scene.judge(tmp_path, snapshot_id, stale={evil})
    found = scene.plan(tmp_path, snapshot_id=snapshot_id, max_share=1)
    plan = load_plan(Layout(tmp_path, scene.CLUSTER), found["plan_id"])
    text = question(plan, "/x/report.html", "why")
    assert "&#124;&#60;img src=x&#62;&#91;y&#93;(http://z)&#96;&#42;" in text
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
    context: Any = {"ti": task}
    ask(tmp_path, planned).execute(context)
    (report,) = (tmp_path / scene.CLUSTER / "reports").glob("*.html")
    assert named == {"kafka_groups_report": str(report)}
    monkeypatch.setenv("AIRFLOW__KAFKA_GROUPS__REPORT_TAB", "False")
    monkeypatch.setattr(ApprovalOperator, "execute", lambda self, context: self.body)
    assert "](" not in ask(tmp_path, planned).execute(context)
