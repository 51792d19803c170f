"""Only the approval of somebody who may give it counts, whichever DAG has asked for it."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError, PlanError
from tests.fakes.admin import FakeAdmin
from tests.unit.operators.arguments.test_floors import configure, connect
from tests.unit.operators.questions.test_question_kept import ONLY_ANN, KeepingAirflow, Server, keeping, server
from tests.unit.operators.test_approval import ANN, ask, context, delete

__all__ = ("keeping", "server")
pytestmark = pytest.mark.safety

BOB = {"id": "7", "name": "Bob"}
OTHER_DAG = {"dag_id": "of bob", "id": uuid4()}


def answer(keeping: KeepingAirflow, storage: Path, planned: dict[str, Any], person: Any, **of_task: Any) -> Any:
    """Let somebody approve what a task has asked; Airflow lets everybody."""
    keeping.answer["responded_by_user"] = person
    return ask(storage, planned).execute_complete(context(**of_task), keeping.answer)


@pytest.mark.promise(8)
def test_whoever_was_left_out_cannot_have_another_dag_ask(
    admin: FakeAdmin, tmp_path: Path, backed_up: dict[str, Any], keeping: KeepingAirflow, server: Server
) -> None:
    """The plan's id goes from DAG to DAG in an XCom; ``assigned_users`` does not."""
    ask(tmp_path, backed_up, **ONLY_ANN).execute(context(id=uuid4()))
    server.row = {}  # another task, another question
    ask(tmp_path, backed_up).execute(context(**OTHER_DAG))
    assert server.row["assigned_users"] == [ANN | {"name": "42"}], "Airflow itself lets nobody else answer"
    with pytest.raises(PlanError, match=r"Bob \(7\) may not approve it, only the users with the ids 42"):
        answer(keeping, tmp_path, backed_up, BOB, **OTHER_DAG)
    with pytest.raises(PlanError, match="was not answered"):
        delete(tmp_path, backed_up)
    assert admin.deleted == []
    answer(keeping, tmp_path, backed_up, ANN, **OTHER_DAG)
    delete(tmp_path, backed_up)
    assert sorted(admin.deleted) == ["a", "b"]


@pytest.mark.parametrize("where", ["configuration", "connection"])
@pytest.mark.promise(9)
def test_the_sites_approvers_count_wherever_the_answer_was_given(
    admin: FakeAdmin,
    tmp_path: Path,
    backed_up: dict[str, Any],
    keeping: KeepingAirflow,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
) -> None:
    ask(tmp_path, backed_up).execute(context(**OTHER_DAG))
    answer(keeping, tmp_path, backed_up, BOB, **OTHER_DAG)  # in a folder of DAGs that does not know of the floor
    (configure if where == "configuration" else connect)(monkeypatch, approvers=json.dumps(["42"]))
    with pytest.raises(PlanError, match=r"Bob \(7\) may not approve it"):
        delete(tmp_path, backed_up, approval_rule="never")
    assert admin.deleted == []


def test_nobody_else_is_asked_and_nobody_elses_answer_is_sealed(
    tmp_path: Path, backed_up: dict[str, Any], keeping: KeepingAirflow, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(monkeypatch, approvers=json.dumps(["42", "43"]))
    asked = ask(tmp_path, backed_up, approval_rule="never")
    asked.execute(context(**OTHER_DAG))
    assert [person["id"] for person in server.row["assigned_users"]] == ["42", "43"]
    for person in (BOB, {"name": "42"}, {"id": "42 ", "name": "Ann"}):
        with pytest.raises(PlanError, match="may not approve it"):
            answer(keeping, tmp_path, backed_up, person, **OTHER_DAG)
    assert answer(keeping, tmp_path, backed_up, ANN, **OTHER_DAG)["approved"] is True


def test_everybody_may_say_no(
    admin: FakeAdmin, tmp_path: Path, backed_up: dict[str, Any], keeping: KeepingAirflow
) -> None:
    ask(tmp_path, backed_up, **ONLY_ANN).execute(context(**OTHER_DAG))
    keeping.answer["chosen_options"] = ["Reject"]
    assert answer(keeping, tmp_path, backed_up, BOB, **OTHER_DAG)["approved"] is False
    with pytest.raises(PlanError, match="rejected"):
        delete(tmp_path, backed_up)
    assert admin.deleted == []


def test_where_nobody_may_answer_nobody_is_asked(
    tmp_path: Path, backed_up: dict[str, Any], keeping: KeepingAirflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(monkeypatch, approvers=json.dumps(["7"]))
    with pytest.raises(PlanError, match="nobody may"):
        ask(tmp_path, backed_up, **ONLY_ANN).execute(context(id=uuid4()))
    connect(monkeypatch, approvers=json.dumps(["8"]))
    with pytest.raises(ConfigurationError, match="no approver in common"):
        ask(tmp_path, backed_up).execute(context(id=uuid4()))
    assert keeping.asked == []
