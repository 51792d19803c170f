"""An approver copies a name out of the question, and ends the last line: that is the name, and not misspelt."""

import html
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.operators.offset_changes import RestoreGroupOffsetsOperator
from airflow_kafka_groups.shown import without_links
from tests.fakes.admin import FakeAdmin
from tests.unit.operators import scene
from tests.unit.operators.test_approval import Airflow, ask, context

NO_LINK = "\u200b"

pytestmark = pytest.mark.safety


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Airflow:
    return Airflow(monkeypatch)


def names_in(question: str) -> list[str]:
    """Return the names of its table, as a browser shows them."""
    return [html.unescape(row.split("|")[1].strip()) for row in question.splitlines() if row.startswith("| ")]


@pytest.mark.parametrize("name", ["svc@team", "www.shop", "plain"])
@pytest.mark.parametrize("end", [[], [""]])
def test_what_is_copied_out_of_the_question_is_kept(
    admin: FakeAdmin, tmp_path: Path, airflow: Airflow, name: str, end: list[str]
) -> None:
    planned = scene.planned_once(admin, tmp_path, [name, "b"], ["live"], backed_up=True)
    operator = ask(tmp_path, planned)
    operator.execute(context())
    (copied,) = (shown for shown in names_in(airflow.asked[0].body or "") if shown.replace(NO_LINK, "") == name)
    airflow.answer["params_input"] = {"confirm_groups": "2", "exclude_groups": [copied, *end]}
    operator.execute_complete(context(), airflow.answer)
    scene.apply(tmp_path, planned)
    assert admin.deleted == ["b"]


def test_a_name_that_has_such_a_character_itself_is_kept_and_not_its_twin(
    admin: FakeAdmin, tmp_path: Path, airflow: Airflow
) -> None:
    name, twin = f"svc{NO_LINK}team", "svcteam"
    planned = scene.planned_once(admin, tmp_path, [name, twin], ["live"], backed_up=True)
    operator = ask(tmp_path, planned)
    operator.execute(context())
    airflow.answer["params_input"] = {"confirm_groups": "2", "exclude_groups": [name]}
    operator.execute_complete(context(), airflow.answer)
    scene.apply(tmp_path, planned)
    assert admin.deleted == [twin]


def test_what_is_copied_out_of_a_message_is_restored(admin: FakeAdmin, tmp_path: Path) -> None:
    """An owner copies the name out of the notice into the form, when the group is wanted after all."""
    planned = scene.planned_once(admin, tmp_path, ["svc@team", "b"], ["live"], backed_up=True)
    scene.apply(tmp_path, planned)
    copied = without_links("svc@team")
    assert copied != "svc@team"
    stored: dict[str, Any] = {"storage_path": str(tmp_path), "cluster": scene.CLUSTER, "plan_id": planned["plan_id"]}
    RestoreGroupOffsetsOperator(task_id="r", group_ids=[copied], **stored).execute({})
    assert sorted(admin.groups) == ["live", "svc@team"]
    with pytest.raises(ConfigurationError, match="not in the backup"):
        RestoreGroupOffsetsOperator(task_id="r", group_ids=[f"{NO_LINK}b"], **stored).execute({})
