"""Only a clear approval of this very plan, of groups or topics, deletes; what the approver keeps is kept, and sees."""

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator

from airflow_kafka_groups.change.plan.question import question
from airflow_kafka_groups.exceptions import PlanError, StorageError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.ledger.approval_rules import ApprovalTerms
from airflow_kafka_groups.ledger.deletion_plan import load_plan, log_plan
from airflow_kafka_groups.observe.cluster_log import ClusterLog
from airflow_kafka_groups.operators.approval import ApprovePruningOperator
from airflow_kafka_groups.operators.pruning import PlanTopicPruningOperator, PruneTopicOffsetsOperator
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.json_files import json_bytes
from airflow_kafka_groups.storage.layout import Layout, utc_now
from tests.fakes.groups import FakeGroup
from tests.records import records
from tests.unit.change.prune_topics.scene import HOUR, cluster, snapshots
from tests.unit.operators import scene
from tests.unit.operators.hitl import ANN, Airflow, ask, context
from tests.unit.operators.scene import Planned, Site


@pytest.fixture
def planned(backed_up: dict[str, Any]) -> dict[str, Any]:
    return backed_up


def delete(storage: Path, planned: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    return scene.apply(storage, planned, **{"approval_rule": "always", **arguments})


def approve(airflow: Airflow, storage: Path, planned: dict[str, Any], **of_task: Any) -> dict[str, Any]:
    """Ask, and let the answer come."""
    operator = ask(storage, planned)
    operator.execute(context(**of_task))
    answer = operator.execute_complete(context(**of_task), airflow.answer)
    assert isinstance(answer, dict)
    return answer


def test_an_approved_plan_is_carried_out_and_the_approver_is_on_record(
    site: Site, planned: Planned, airflow: Airflow
) -> None:
    answer = approve(airflow, site.storage, planned)
    assert json.loads(json.dumps(answer)) == {
        "required": True,
        "approved": True,
        "plan_id": planned["plan_id"],
        "plan_digest": planned["digest"],
        "responded_at": "2026-01-01T00:00:00+00:00",
        "responded_by_user": ANN,
    }
    delete(site.storage, planned)
    assert sorted(site.admin.deleted) == ["a", "b"]
    (record,) = records(site.storage)
    assert record["approval"]["approved_by"] == "Ann (42)"
    assert record["approval"]["approved_at"] == "2026-01-01T00:00:00+00:00"


def test_what_the_approver_keeps_is_kept_with_that_reason(site: Site, planned: Planned, airflow: Airflow) -> None:
    airflow.answer["params_input"] = {"confirm_groups": 2, "exclude_groups": ["a"]}
    approve(airflow, site.storage, planned)
    done = delete(site.storage, planned)
    assert site.admin.deleted == ["b"]
    assert done["kept"] == {"a": "Ann (42) kept it at the approval"}
    assert done["kept_reasons"] == {"excluded": 1}


@pytest.mark.safety
@pytest.mark.promise(8)
def test_nothing_that_was_not_sealed_approves(site: Site, planned: Planned) -> None:
    """The task was marked as success, or somebody wrote its XCom: there is nothing of it in the storage."""
    with pytest.raises(PlanError, match=r"nothing was deleted: nobody was asked .*marked as success"):
        delete(site.storage, planned)
    assert site.admin.deleted == []


@pytest.mark.safety
@pytest.mark.promise(8)
def test_what_the_task_returns_is_not_what_approves(site: Site, planned: Planned, airflow: Airflow) -> None:
    """Its XCom can be written by users: only the sealed answer counts, and it says no."""
    airflow.answer |= {"chosen_options": ["Reject"]}
    assert approve(airflow, site.storage, planned)["approved"] is False
    with pytest.raises(PlanError, match="it was rejected"):
        delete(site.storage, planned)
    assert site.admin.deleted == []


def test_an_answer_that_did_not_come_is_airflows_own_error(
    tmp_path: Path, planned: dict[str, Any], airflow: Airflow
) -> None:
    late = {"error": "no answer", "error_type": "timeout"}
    assert ask(tmp_path, planned).execute_complete(context(), late) == late, "passed on, and nothing sealed"
    assert '"kind":"answer"' not in "".join(path.read_text() for path in tmp_path.glob("_journal/*/log/*.json"))


@pytest.mark.safety
@pytest.mark.promise(8)
def test_a_new_question_withdraws_the_answer_to_the_one_before(site: Site, planned: Planned, airflow: Airflow) -> None:
    approve(airflow, site.storage, planned)
    ask(site.storage, planned).execute(context(try_number=2, id="uuid-2"))
    with pytest.raises(PlanError, match="the latest question was not answered"):
        delete(site.storage, planned)
    with pytest.raises(PlanError, match="the question was withdrawn by a later one"):
        ask(site.storage, planned).execute_complete(context(), airflow.answer)
    assert site.admin.deleted == []
    ask(site.storage, planned).execute_complete(context(try_number=2, id="uuid-2"), airflow.answer)
    assert delete(site.storage, planned)["counts"]["deleted"] == 2


@pytest.mark.safety
@pytest.mark.promise(8)
def test_an_answer_that_is_sealed_after_a_later_question_does_not_answer_that_one(
    site: Site, planned: Planned, airflow: Airflow
) -> None:
    approve(airflow, site.storage, planned)
    ask(site.storage, planned).execute(context(try_number=2, id="uuid-2"))
    *_, answer, _ = sorted(site.storage.glob("_journal/*/log/*.json"))
    ClusterLog(site.storage, site.admin.cluster).add(json.loads(answer.read_text()))
    with pytest.raises(PlanError, match="the latest question was not answered"):
        delete(site.storage, planned)
    assert site.admin.deleted == []


@pytest.mark.safety
@pytest.mark.promise(8)
@pytest.mark.parametrize("rule", ["always", "never"])
def test_an_older_copy_of_the_journal_approves_nothing(
    site: Site, planned: Planned, airflow: Airflow, rule: str
) -> None:
    """It lacks the plan, its rejection, and which groups to keep."""
    airflow.answer |= {"chosen_options": ["Reject"]}
    approve(airflow, site.storage, planned)
    for path in [
        *site.storage.glob("_journal/*/signs.parquet"),
        *sorted(site.storage.glob("_journal/*/log/*.json"))[-3:],
    ]:
        path.unlink()
    with pytest.raises(PlanError, match="the log of the cluster does not know it"):
        delete(site.storage, planned, approval_rule=rule)
    assert site.admin.deleted == []


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"params_input": None}, "None were confirmed"),
        ({"params_input": {}}, "None were confirmed"),
        ({"params_input": {"confirm_groups": ""}}, "'' were confirmed"),
        ({"params_input": {"confirm_groups": "3"}}, "'3' were confirmed"),
        ({"params_input": {"confirm_groups": 1}}, "1 were confirmed"),
        ({"params_input": {"confirm_groups": True}}, "True were confirmed"),
        ({"params_input": {"confirm_groups": "2", "exclude_groups": ["c"]}}, "misspelt"),
        ({"params_input": {"confirm_groups": "2", "exclude_groups": "a"}}, "cannot be read"),
        ({"params_input": {"confirm_groups": "2", "exclude_groups": [1]}}, "cannot be read"),
        ({"responded_by_user": None}, "nobody is named"),
        ({"responded_by_user": {}}, "nobody is named"),
    ],
)
def test_an_unclear_approval_is_refused_where_it_is_given(
    site: Site, planned: Planned, airflow: Airflow, changes: dict[str, Any], why: str
) -> None:
    airflow.answer |= changes
    with pytest.raises(PlanError, match=why):
        approve(airflow, site.storage, planned)
    with pytest.raises(PlanError, match="was not answered"):
        delete(site.storage, planned)
    assert (site.admin.deleted, records(site.storage)) == ([], [])


@pytest.mark.parametrize("options", [["Reject"], ["Approve", "Reject"], []])
def test_whatever_is_no_approval_is_a_rejection(
    site: Site, planned: Planned, airflow: Airflow, options: list[str]
) -> None:
    airflow.answer |= {"chosen_options": options, "responded_by_user": None, "params_input": {}}
    assert approve(airflow, site.storage, planned)["approved"] is False
    with pytest.raises(PlanError, match="it was rejected"):
        delete(site.storage, planned)
    assert site.admin.deleted == []


@pytest.mark.safety
def test_once_asked_the_answer_counts_also_for_a_run_that_asks_nobody(
    site: Site, planned: Planned, airflow: Airflow
) -> None:
    """A rejected plan, and a group that was kept, are not deleted by another run with ``approval_rule: never``."""
    operator = ask(site.storage, planned)
    operator.execute(context())
    with pytest.raises(PlanError, match="not answered"):
        delete(site.storage, planned, approval_rule="never")
    airflow.answer["chosen_options"] = ["Reject"]
    operator.execute_complete(context(), airflow.answer)
    with pytest.raises(PlanError, match="rejected"):
        delete(site.storage, planned, approval_rule="never")
    assert site.admin.deleted == []
    airflow.answer |= {"chosen_options": ["Approve"], "params_input": {"confirm_groups": "2", "exclude_groups": ["a"]}}
    approve(airflow, site.storage, planned, id="uuid-2")
    delete(site.storage, planned, approval_rule="never")
    assert site.admin.deleted == ["b"]


@pytest.mark.promise(8)
def test_an_approval_of_another_plan_approves_nothing(site: Site, planned: Planned, airflow: Airflow) -> None:
    approve(airflow, site.storage, planned)
    answer = max(site.storage.glob("_journal/*/log/*.json"))
    answer.write_text(answer.read_text().replace(planned["digest"], "0" * 64))
    with pytest.raises(PlanError, match="another version"):
        delete(site.storage, planned)
    assert site.admin.deleted == []


@pytest.mark.safety
@pytest.mark.promise(8)
def test_an_answer_approves_no_plan_that_took_the_place_of_the_one_in_the_question(
    site: Site, planned: Planned, airflow: Airflow
) -> None:
    """The task is resumed with arguments that are rendered again: what it reads then, nobody was asked about."""
    ask(site.storage, planned).execute(context())
    layout = site.layout
    other = replace(load_plan(layout, planned["plan_id"]), warnings=("nobody has seen this one",))
    for path, content in (
        (layout.plan_body(other.plan_id), other.body),
        (layout.plan(other.plan_id), json_bytes(other.to_json())),
    ):
        path.write_bytes(content)
    shown = {**planned, "digest": other.digest}
    with pytest.raises(PlanError, match="the log of the cluster does not know it"):
        ask(site.storage, shown).execute_complete(context(), airflow.answer)
    log_plan(layout, other)
    with pytest.raises(PlanError, match="the question was about another version of this plan"):
        ask(site.storage, shown).execute_complete(context(), airflow.answer)
    with pytest.raises(PlanError, match="not answered"):
        delete(site.storage, shown)
    assert site.admin.deleted == []


@pytest.mark.safety
def test_a_question_that_cannot_be_sealed_is_not_asked(site: Site, planned: Planned, airflow: Airflow) -> None:
    site.patch.setattr(FILES, "create", Mock(side_effect=StorageError("no space left")))
    with pytest.raises(StorageError):
        ask(site.storage, planned).execute(context())
    assert airflow.asked == []


@pytest.mark.parametrize(
    ("rule", "cap", "groups", "asked"),
    [
        ("always", 100, 1, True),
        ("always", 100, 0, False),
        ("above_cap", 100, 100, False),
        ("above_cap", 100, 101, True),
        ("above_cap", 0, 1, True),
        ("never", 0, 500, False),
    ],
)
def test_when_somebody_has_to_approve(rule: str, cap: int, groups: int, asked: bool) -> None:
    terms = ApprovalTerms(rule=rule, approve_above=cap)
    assert (terms.why(groups) is not None) is asked


def test_a_dry_run_and_a_rule_that_lets_it_pass_ask_nobody(tmp_path: Path, planned: dict[str, Any]) -> None:
    for arguments in ({"dry_run": "True"}, {"approval_rule": "above_cap"}, {"approval_rule": "never"}):
        assert ask(tmp_path, planned, **arguments).execute({}) == {"required": False}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"confirm_groups": "2"}, None),
        ({"confirm_groups": "2", "exclude_groups": None}, None),
        ({"confirm_groups": "2", "exclude_groups": [], "exclude": ["a"]}, "'exclude' is no field of the form"),
        ({"confirm_groups": "2", "exclude_group": ["a"]}, "'exclude_group' is no field of the form"),
    ],
)
def test_an_answer_by_rest_need_not_name_every_field_and_may_name_no_other(
    site: Site, planned: Planned, airflow: Airflow, given: dict[str, Any], why: str | None
) -> None:
    """Airflow's API takes any fields, and its operator refuses what differs from the form after the answer is known."""
    airflow.answer["params_input"] = given
    if why is None:
        assert approve(airflow, site.storage, planned)["approved"] is True
        assert delete(site.storage, planned)["counts"]["deleted"] == 2
        return
    with pytest.raises(PlanError, match=why):
        approve(airflow, site.storage, planned)
    with pytest.raises(PlanError, match="was not answered"):
        delete(site.storage, planned)
    assert site.admin.deleted == []


# What an approver is shown: what would go, who used it last, and no markup from names of groups.


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
        (
            "x|<img src=x>[y](http://z)`*_",
            "x&#124;&#60;img src=x&#62;&#91;y&#93;(http:&#8203;//z)&#96;&#42;&#95;",
        ),
        ("a\u202e\u2069b", "a&#92;u202e&#92;u2069b"),
        ("y" * 32_000, f"{'y' * 200}… (32,000 characters)".replace("…", "&#8230;")),
    ],
)
def test_an_id_is_no_link_and_no_emphasis_and_not_too_long(site: Site, group_id: str, shown: str) -> None:
    found = site.plan_of([group_id])
    text = question(load_plan(site.layout, found["plan_id"]), "s3://x/report.html", "why")
    assert f"| {shown} |" in text
    assert "Report with all groups: s3://x/report.html" in text
    assert not set("<>[]`") & set(text)


def test_who_used_a_group_last_is_in_the_question(site: Site) -> None:
    found = scene.plan_of_used(site.admin, site.storage)
    asked: list[str] = []
    site.patch.setattr(ApprovalOperator, "execute", lambda self, context: asked.append(self.body))
    task = SimpleNamespace(dag_id="d", run_id="r", xcom_push=lambda key, value: None)
    ask(site.storage, found).execute({"ti": task})  # type: ignore[typeddict-item]
    assert re.search(r"\| a \| because .* \| .* UTC: 2 member\(s\), c at 127.0.0.1; topics t \|", asked[0])
    assert re.search(r"\| b \| because .* \| not known \|", asked[0])


def test_the_question_leads_to_the_report(site: Site, planned: Planned) -> None:
    named: dict[str, str] = {}
    task = SimpleNamespace(dag_id="d", run_id="r 1", xcom_push=lambda key, value: named.update({key: value}))

    def asked(self: Any, context: Any) -> None:
        assert "[Report with all groups](/dags/d/runs/r%201/plugin/kafka-groups-report)" in self.body

    site.patch.setattr(ApprovalOperator, "execute", asked)
    ask(site.storage, planned).execute({"ti": task})  # type: ignore[typeddict-item]
    (report,) = (site.folder / "reports").glob(f"{planned['plan_id']}*.html")
    assert named == {"kafka_groups_report": str(report)}
    site.configure(report_tab="False")
    site.patch.setattr(ApprovalOperator, "execute", lambda self, context: self.body)
    assert "](" not in ask(site.storage, planned).execute({"ti": task})  # type: ignore[typeddict-item]


# A pruning that has to be approved prunes only what a person has approved.


@pytest.fixture
def made(site: Site) -> dict[str, Any]:
    offsets: Any = {TopicPartition("live", 0): 1, TopicPartition("old", 0): 7}
    found = cluster(**{"z|ap": FakeGroup(offsets, members=1, subscribed=frozenset({"live"}))})
    site.admin.log, site.admin.groups = found.log, found.groups
    asyncio.run(snapshots(site.admin, site.layout, 4, first=utc_now() - 3 * HOUR))
    task = PlanTopicPruningOperator(task_id="p", min_idle_seconds="2h", max_share=1, **site.stored)
    return task.execute({})


def prune(storage: Path, made: dict[str, Any]) -> dict[str, Any]:
    task = PruneTopicOffsetsOperator(approval_rule="always", dry_run=False, **scene.of_plan(storage, made))
    counts: dict[str, Any] = task.execute({})["counts"]
    return counts


def test_the_form_asks_for_what_is_checked(made: dict[str, Any], tmp_path: Path) -> None:
    form = ApprovePruningOperator(**scene.of_plan(tmp_path, made)).params
    number = form.get_param("confirm_groups")
    assert number.schema["title"] == "Number of topics"
    assert str(number.description).endswith("topics are planned to have their offsets deleted.")
    assert form.get_param("exclude_groups").schema["title"] == "Topics to keep"


def test_only_what_was_approved_is_pruned(site: Site, made: dict[str, Any], airflow: Airflow) -> None:
    with pytest.raises(PlanError, match="nobody was asked"):
        prune(site.storage, made)
    task = ApprovePruningOperator(**site.of_plan(made))
    task.execute(context())
    assert task.subject == f"Prune 2 topics of live groups of {scene.CLUSTER}?"
    assert task.body is not None
    assert "app &#91;old&#93;" in task.body
    assert "z|ap" not in task.body, "nothing of the cluster is taken for markup"
    with pytest.raises(PlanError, match="not answered"):
        prune(site.storage, made)
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
    counts = prune(site.storage, made)
    assert (counts["deleted"], counts["kept"]) == (1, 1)
    assert TopicPartition("old", 0) in site.admin.groups["app"].offsets


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
