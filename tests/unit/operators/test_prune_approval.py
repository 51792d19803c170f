"""A pruning that has to be approved prunes only what a person has approved."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.operators.approval import ApprovePruningOperator
from airflow_kafka_groups.operators.pruning import PlanTopicPruningOperator, PruneTopicOffsetsOperator
from airflow_kafka_groups.storage.layout import Layout, utc_now
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.change.prune_topics.scene import HOUR, cluster, snapshots
from tests.unit.operators import scene
from tests.unit.operators.test_approval import Airflow, context


@pytest.fixture
def made(admin: FakeAdmin, tmp_path: Path) -> dict[str, Any]:
    offsets: Any = {TopicPartition("live", 0): 1, TopicPartition("old", 0): 7}
    found = cluster(**{"z|ap": FakeGroup(offsets, members=1, subscribed=frozenset({"live"}))})
    admin.log, admin.groups = found.log, found.groups
    asyncio.run(snapshots(admin, Layout(tmp_path, scene.CLUSTER), 4, first=utc_now() - 3 * HOUR))
    task = PlanTopicPruningOperator(task_id="p", min_idle_seconds="2h", max_share=1, **scene.stored(tmp_path))
    return task.execute({})


def prune(storage: Path, made: dict[str, Any]) -> dict[str, Any]:
    task = PruneTopicOffsetsOperator(approval_rule="always", dry_run=False, **scene.of_plan(storage, made))
    counts: dict[str, Any] = task.execute({})["counts"]
    return counts


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Airflow:
    return Airflow(monkeypatch)


def test_the_form_asks_for_what_is_checked(made: dict[str, Any], tmp_path: Path) -> None:
    form = ApprovePruningOperator(**scene.of_plan(tmp_path, made)).params
    number = form.get_param("confirm_groups")
    assert number.schema["title"] == "Number of topics"
    assert str(number.description).endswith("topics are planned to have their offsets deleted.")
    assert form.get_param("exclude_groups").schema["title"] == "Topics to keep"


def test_only_what_was_approved_is_pruned(
    admin: FakeAdmin, made: dict[str, Any], tmp_path: Path, airflow: Airflow
) -> None:
    with pytest.raises(PlanError, match="nobody was asked"):
        prune(tmp_path, made)
    task = ApprovePruningOperator(**scene.of_plan(tmp_path, made))
    task.execute(context())
    assert task.subject == f"Prune 2 topics of live groups of {scene.CLUSTER}?"
    assert task.body is not None
    assert "app &#91;old&#93;" in task.body
    assert "z|ap" not in task.body, "nothing of the cluster is taken for markup"
    with pytest.raises(PlanError, match="not answered"):
        prune(tmp_path, made)
    for given, why in (
        ({"confirm_groups": "1"}, "2 topics are planned, and '1' were confirmed: type 2 to approve it"),
        ({"confirm_groups": "2", "exclude_groups": ["app"]}, "misspelt"),
        ({"confirm_groups": "2", "exclude_groups": "app"}, "the topics to keep cannot be read"),
    ):
        with pytest.raises(PlanError, match=why):
            task.execute_complete(context(), {**airflow.answer, "params_input": given})
    airflow.answer["params_input"] = {"confirm_groups": "2", "exclude_groups": ["app [old]"]}
    done = task.execute_complete(context(), airflow.answer)
    assert (done["approved"], done["plan_digest"]) == (True, made["digest"])
    counts = prune(tmp_path, made)
    assert (counts["deleted"], counts["kept"]) == (1, 1)
    assert TopicPartition("old", 0) in admin.groups["app"].offsets


@pytest.mark.usefixtures("airflow")
def test_the_question_speaks_of_topics(made: dict[str, Any], tmp_path: Path) -> None:
    task = ApprovePruningOperator(approval_rule="above_cap", approve_above=1, **scene.of_plan(tmp_path, made))
    assert "groups" not in task.subject.replace("live groups", "")
    task.execute(context())
    assert task.body is not None
    assert "2 topics are planned, and more than 1 have to be approved" in task.body


def test_a_dry_run_asks_nobody(made: dict[str, Any], tmp_path: Path) -> None:
    task = ApprovePruningOperator(dry_run=True, **scene.of_plan(tmp_path, made))
    assert task.execute(context()) == {"required": False}
