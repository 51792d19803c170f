"""Airflow keeps a task's first question, and lets everybody answer: neither approves what nobody may have approved."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG
from airflow.sdk.definitions.param import process_params
from airflow.sdk.exceptions import ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import (
    CreateHITLDetailPayload,
    ErrorResponse,
    GetConnection,
    GetVariable,
    HITLDetailRequestResult,
)

from airflow_kafka_groups.exceptions import ConfigurationError, PlanError
from airflow_kafka_groups.operators.approval import ApproveCleanupOperator
from tests.fakes.groups import FakeGroup
from tests.unit.operators.hitl import ANN, Airflow, ask, context
from tests.unit.operators.scene import Planned, Site
from tests.unit.operators.test_approval import delete

pytestmark = pytest.mark.safety

ONLY_ANN = {"assigned_users": [{"id": "42", "name": "Ann"}]}
WITH_MORE = [{"id": "42", "name": "Ann", "team": "orders"}]
"""As a list from a site's directory has it: Airflow reads ids and names of it."""


class Server:
    """What ``upsert_hitl_detail()`` of Airflow 3.3 does for one task instance, whatever its try."""

    def __init__(self) -> None:
        self.row: Mapping[str, Any] = {}

    def send(self, msg: Any) -> Any:
        if isinstance(msg, GetConnection):
            return ErrorResponse(error=ErrorType.CONNECTION_NOT_FOUND)
        if isinstance(msg, GetVariable):
            return ErrorResponse(error=ErrorType.VARIABLE_NOT_FOUND)
        if not isinstance(msg, CreateHITLDetailPayload):
            return None
        self.row = self.row or msg.model_dump(exclude={"type"})
        return HITLDetailRequestResult(**{**self.row, "ti_id": msg.ti_id})

    def page(self, **typed: Any) -> dict[str, Any]:
        """Return what a browser sends: the fields of the form that is shown, with what was typed."""
        return {**{name: field["value"] for name, field in self.row["params"].items()}, **typed}


class KeepingAirflow(Airflow):
    """It asks by that server, as its operator does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
        super().__init__(monkeypatch)

        def execute(operator: ApproveCleanupOperator, context: Any) -> None:
            self.asked.append(operator)
            people: Any = operator.assigned_users or []
            server.send(
                CreateHITLDetailPayload(
                    ti_id=context["ti"].id,
                    options=operator.options,
                    subject=operator.subject,
                    body=operator.body,
                    defaults=operator.defaults,
                    multiple=operator.multiple,
                    params=operator.serialized_params,
                    assigned_users=people,
                )
            )

        monkeypatch.setattr(ApprovalOperator, "execute", execute)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", found, raising=False)
    return found


@pytest.fixture
def keeping(monkeypatch: pytest.MonkeyPatch, server: Server) -> KeepingAirflow:
    return KeepingAirflow(monkeypatch, server)


@pytest.fixture
def plans(site: Site) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two plans of as many groups, as all plans at max_groups are; the second one is backed up."""
    site.admin.groups = {name: FakeGroup() for name in ("a1", "a2", "b1", "b2", "live")}
    snapshot_id = site.take_snapshot()
    site.judge(snapshot_id, stale=["a1", "a2", "b1", "b2"])
    first, second = (site.plan(snapshot_id=snapshot_id, include=[include], max_share=1) for include in ("a*", "b*"))
    site.back_up(second)
    return first, second


def page_of(operator: ApproveCleanupOperator, **typed: Any) -> dict[str, Any]:
    """Return what a browser sends that has the operator's form before it."""
    return {**dict(operator.params), **typed}


def test_nobody_is_asked_about_a_plan_by_the_text_of_another(
    site: Site, plans: tuple[dict[str, Any], dict[str, Any]], keeping: KeepingAirflow, server: Server
) -> None:
    """Nobody answers, and the tasks from ``plan`` on are cleared in the same DAG run: there is another plan."""
    first, second = plans
    ask(site.storage, first).execute(context(id=uuid4()))
    again = {"id": uuid4(), "try_number": 2}
    with pytest.raises(PlanError, match="this task has asked about another plan, and Airflow still shows that"):
        ask(site.storage, second).execute(context(**again))
    assert "| a1 |" in server.row["body"]
    assert "| b1 |" not in server.row["body"]
    assert len(keeping.asked) == 1
    with pytest.raises(PlanError):
        ask(site.storage, second).execute_complete(context(**again), keeping.answer)
    with pytest.raises(PlanError):
        delete(site.storage, second)
    assert site.admin.deleted == []


@pytest.mark.parametrize("people", [{}, ONLY_ANN], ids=["everybody", "Ann"])
def test_the_same_plan_can_be_asked_about_again(
    site: Site, backed_up: Planned, keeping: KeepingAirflow, people: dict[str, Any]
) -> None:
    ask(site.storage, backed_up, **people).execute(context(id=uuid4()))
    again = {"id": uuid4(), "try_number": 2}
    ask(site.storage, backed_up, **people).execute(context(**again))
    ask(site.storage, backed_up, **people).execute_complete(context(**again), keeping.answer)
    delete(site.storage, backed_up)
    assert sorted(site.admin.deleted) == ["a", "b"]


def test_who_may_answer_is_who_the_dag_says_now(
    tmp_path: Path, backed_up: dict[str, Any], keeping: KeepingAirflow
) -> None:
    """The DAG gets ``assigned_users``, and the waiting task is cleared for that: Airflow lets all answer as before."""
    ask(tmp_path, backed_up).execute(context(id=uuid4()))
    with pytest.raises(PlanError, match="other people may answer than assigned_users says"):
        ask(tmp_path, backed_up, **ONLY_ANN).execute(context(id=uuid4(), try_number=2))
    assert len(keeping.asked) == 1


def test_an_answer_from_a_page_about_another_plan_approves_nothing(
    site: Site, plans: tuple[dict[str, Any], dict[str, Any]], airflow: Airflow
) -> None:
    """Ann has the page of the first plan before her when the task asks about the second, which gets her answer."""
    first, second = plans
    asked = ask(site.storage, first)
    asked.execute(context())
    again = {"id": "uuid-2", "try_number": 2}
    ask(site.storage, second).execute(context(**again))
    airflow.answer["params_input"] = page_of(asked, confirm_groups="2")
    with pytest.raises(PlanError, match="the answer is to a question about another plan"):
        ask(site.storage, second).execute_complete(context(**again), airflow.answer)
    with pytest.raises(PlanError):
        delete(site.storage, second)
    assert site.admin.deleted == []


def test_a_page_about_another_plan_still_rejects(
    site: Site, plans: tuple[dict[str, Any], dict[str, Any]], airflow: Airflow
) -> None:
    first, second = plans
    asked = ask(site.storage, first)
    asked.execute(context())
    ask(site.storage, second).execute(context())
    airflow.answer |= {"chosen_options": ["Reject"], "params_input": page_of(asked)}
    assert ask(site.storage, second).execute_complete(context(), airflow.answer)["approved"] is False
    with pytest.raises(PlanError, match="rejected"):
        delete(site.storage, second)
    assert site.admin.deleted == []


def test_the_page_of_the_question_approves(site: Site, backed_up: Planned, airflow: Airflow) -> None:
    asked = ask(site.storage, backed_up)
    asked.execute(context())
    airflow.answer["params_input"] = page_of(asked, confirm_groups="2")
    ask(site.storage, backed_up).execute_complete(context(), airflow.answer)
    delete(site.storage, backed_up)
    assert sorted(site.admin.deleted) == ["a", "b"]


def test_the_form_that_airflow_shows_names_the_plan(
    tmp_path: Path, backed_up: dict[str, Any], keeping: KeepingAirflow, server: Server
) -> None:
    """Whatever the task sends first, that is what Airflow shows: fields that are added after it, no page has."""
    asked = ask(tmp_path, backed_up)
    asked.execute(context(id=uuid4()))
    assert server.page()["plan_digest"] == backed_up["digest"]
    assert set(server.page()) == set(asked.serialized_params)


@pytest.mark.parametrize("given", [{"confirm_groups": 2}, {"exclude_groups": "a"}, {"confirm_groups": [], "x": 1}])
@pytest.mark.parametrize("chosen", ["Approve", "Reject"])
def test_an_answer_that_counts_does_not_fail_the_task_that_seals_it(
    site: Site, backed_up: Planned, airflow: Airflow, given: dict[str, Any], chosen: str
) -> None:
    """Airflow's operator checks the fields once more, by their types. A try that fails asks again, after a no too."""
    ask(site.storage, backed_up).execute(context())
    airflow.answer |= {"chosen_options": [chosen], "params_input": given}
    resumed = ask(site.storage, backed_up)
    if chosen == "Approve" and given != {"confirm_groups": 2}:
        with pytest.raises(PlanError, match="nothing was deleted"):
            resumed.execute_complete(context(), airflow.answer)
        return
    assert resumed.execute_complete(context(), airflow.answer)["approved"] is (chosen == "Approve")


def test_who_triggers_a_run_does_not_fill_in_what_the_approver_has_to_type(site: Site, backed_up: Planned) -> None:
    """Airflow writes a run's configuration into the task's own fields before the task begins."""
    asked: list[dict[str, Any]] = []
    site.patch.setattr(
        ApprovalOperator, "execute", lambda operator, context: asked.append(dict(operator.serialized_params))
    )
    with DAG("d", schedule=None) as dag:
        operator = ask(site.storage, backed_up)
    process_params(dag, operator, {"confirm_groups": "2", "exclude_groups": ["a"]}, suppress_exception=False)
    operator.execute(context())
    (fields,) = asked
    assert {name: field["value"] for name, field in fields.items()} == {
        "confirm_groups": "",
        "exclude_groups": [],
        "plan_digest": backed_up["digest"],
    }


def test_nobody_as_people_is_refused_when_the_dag_is_parsed() -> None:
    """Of an empty list, Airflow lets everybody answer."""
    with pytest.raises(ConfigurationError, match=r"assigned_users.*\[\{\"id\": \"42\", \"name\": \"Ann\"\}\]"):
        ApproveCleanupOperator(task_id="t", storage_path="/d", plan_id="p", plan_digest="d", assigned_users=[])


@pytest.mark.parametrize("people", [None, {"id": "42", "name": "Ann"}, ONLY_ANN["assigned_users"], WITH_MORE])
def test_people_by_their_ids_and_names_are_taken(people: Any) -> None:
    ApproveCleanupOperator(task_id="t", storage_path="/d", plan_id="p", plan_digest="d", assigned_users=people)


# Only the approval of somebody who may give it counts, whichever DAG has asked for it.


BOB = {"id": "7", "name": "Bob"}
OTHER_DAG = {"dag_id": "of bob", "id": uuid4()}


def answer(keeping: KeepingAirflow, storage: Path, planned: dict[str, Any], person: Any, **of_task: Any) -> Any:
    """Let somebody approve what a task has asked; Airflow lets everybody."""
    keeping.answer["responded_by_user"] = person
    return ask(storage, planned).execute_complete(context(**of_task), keeping.answer)


@pytest.mark.promise(8)
def test_whoever_was_left_out_cannot_have_another_dag_ask(
    site: Site, backed_up: Planned, keeping: KeepingAirflow, server: Server
) -> None:
    """The plan's id goes from DAG to DAG in an XCom; ``assigned_users`` does not."""
    ask(site.storage, backed_up, **ONLY_ANN).execute(context(id=uuid4()))
    server.row = {}  # another task, another question
    ask(site.storage, backed_up).execute(context(**OTHER_DAG))
    assert server.row["assigned_users"] == [ANN | {"name": "42"}], "Airflow itself lets nobody else answer"
    with pytest.raises(PlanError, match=r"Bob \(7\) may not approve it, only the users with the ids 42"):
        answer(keeping, site.storage, backed_up, BOB, **OTHER_DAG)
    with pytest.raises(PlanError, match="was not answered"):
        delete(site.storage, backed_up)
    assert site.admin.deleted == []
    answer(keeping, site.storage, backed_up, ANN, **OTHER_DAG)
    delete(site.storage, backed_up)
    assert sorted(site.admin.deleted) == ["a", "b"]


@pytest.mark.parametrize("where", ["configuration", "connection"])
@pytest.mark.promise(9)
def test_the_sites_approvers_count_wherever_the_answer_was_given(
    site: Site, backed_up: Planned, keeping: KeepingAirflow, where: str
) -> None:
    ask(site.storage, backed_up).execute(context(**OTHER_DAG))
    answer(keeping, site.storage, backed_up, BOB, **OTHER_DAG)  # in a folder of DAGs that does not know of the floor
    site.limit(where, approvers=json.dumps(["42"]))
    with pytest.raises(PlanError, match=r"Bob \(7\) may not approve it"):
        delete(site.storage, backed_up, approval_rule="never")
    assert site.admin.deleted == []


def test_nobody_else_is_asked_and_nobody_elses_answer_is_sealed(
    site: Site, backed_up: Planned, keeping: KeepingAirflow, server: Server
) -> None:
    site.configure(approvers=json.dumps(["42", "43"]))
    asked = ask(site.storage, backed_up, approval_rule="never")
    asked.execute(context(**OTHER_DAG))
    assert [person["id"] for person in server.row["assigned_users"]] == ["42", "43"]
    for person in (BOB, {"name": "42"}, {"id": "42 ", "name": "Ann"}):
        with pytest.raises(PlanError, match="may not approve it"):
            answer(keeping, site.storage, backed_up, person, **OTHER_DAG)
    assert answer(keeping, site.storage, backed_up, ANN, **OTHER_DAG)["approved"] is True


def test_everybody_may_say_no(site: Site, backed_up: Planned, keeping: KeepingAirflow) -> None:
    ask(site.storage, backed_up, **ONLY_ANN).execute(context(**OTHER_DAG))
    keeping.answer["chosen_options"] = ["Reject"]
    assert answer(keeping, site.storage, backed_up, BOB, **OTHER_DAG)["approved"] is False
    with pytest.raises(PlanError, match="rejected"):
        delete(site.storage, backed_up)
    assert site.admin.deleted == []


def test_where_nobody_may_answer_nobody_is_asked(site: Site, backed_up: Planned, keeping: KeepingAirflow) -> None:
    site.configure(approvers=json.dumps(["7"]))
    with pytest.raises(PlanError, match="nobody may"):
        ask(site.storage, backed_up, **ONLY_ANN).execute(context(id=uuid4()))
    site.connect(floors={"approvers": json.dumps(["8"])})
    with pytest.raises(ConfigurationError, match="no approver in common"):
        ask(site.storage, backed_up).execute(context(id=uuid4()))
    assert keeping.asked == []
