"""Arguments as DAGs of a site compose them: mapped over several outputs, in subclasses, sets, and native templates."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, ObjectStoragePath
from airflow.sdk.definitions.xcom_arg import PlainXComArg

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.operators.groups import ListGroupsOperator
from airflow_kafka_groups.operators.offset_changes import RestoreGroupOffsetsOperator
from airflow_kafka_groups.operators.offsets import ListGroupLagOperator, ListGroupOffsetsOperator
from airflow_kafka_groups.operators.plan import PlanCleanupOperator
from airflow_kafka_groups.operators.pruning import PruneFilesOperator
from airflow_kafka_groups.operators.spark import KafkaSparkSubmitOperator
from airflow_kafka_groups.sensors.groups import GroupsEmptySensor
from tests.fakes.admin import FakeAdmin
from tests.unit.operators import scene

pytestmark = pytest.mark.safety

STORED: dict[str, Any] = {"storage_path": "/data", "cluster": "prod"}


def a_dag(**arguments: Any) -> DAG:
    return DAG("d", start_date=datetime(2026, 1, 1), schedule=None, **arguments)


def render(dag: DAG, tasks: Any, map_index: int = 0, **more: Any) -> Any:
    """Return the task, or one of a mapped one, as Airflow renders it."""
    ti = SimpleNamespace(map_index=map_index)
    context: Any = {"dag": dag, "dag_run": SimpleNamespace(conf={}), "ti": ti, "task": tasks, **more}
    tasks.render_template_fields(context)
    return context["task"]


class OfTeam(PlanCleanupOperator):
    """A site's own subclass, which knows what to keep."""

    def __init__(self, *, team: str, **kwargs: Any) -> None:
        super().__init__(exclude=["{{ keep }}-*"], **kwargs)
        self.team = team


def test_a_template_of_a_subclass_that_is_mapped_over_an_output_is_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was taken for a part of that output, and kept nothing."""
    monkeypatch.setattr(PlainXComArg, "resolve", lambda self, context: [{"team": "a"}])
    with a_dag() as dag:
        tasks = OfTeam.partial(task_id="t", **STORED).expand_kwargs(ListGroupsOperator(task_id="l").output)
    assert render(dag, tasks, keep="pay").exclude == ("pay-*",)


def test_so_is_one_in_default_args(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlainXComArg, "resolve", lambda self, context: [{"include": ["*"]}])
    with a_dag(default_args={"exclude": ["{{ keep }}-*"], "max_lag": "{{ most }}"}) as dag:
        tasks = ListGroupLagOperator.partial(task_id="t").expand_kwargs(ListGroupsOperator(task_id="l").output)
    task = render(dag, tasks, keep="pay", most=5)
    assert (task.exclude, task.max_lag) == (("pay-*",), 5)


def test_an_output_that_takes_the_place_of_an_argument_is_no_template(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlainXComArg, "resolve", lambda self, context: [{"group_ids": ["{{ secret }}"]}])
    with a_dag() as dag:
        partial = DeleteGroupsOperator.partial(task_id="t", **STORED, group_ids=["{{ first }}"])
        tasks = partial.expand_kwargs(ListGroupsOperator(task_id="l").output, strict=False)
    assert render(dag, tasks, secret="s3cret").group_ids == ["{{ secret }}"]


def test_names_of_one_of_several_outputs_that_a_task_is_mapped_over_are_no_templates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "{{ secret }}"
    monkeypatch.setattr(PlainXComArg, "resolve", lambda self, context: {"group_ids": [name]})
    with a_dag() as dag:
        found = [ListGroupsOperator(task_id=each).output for each in "ab"]
        literal = {"group_ids": ["{{ first }}"]}
        tasks = DeleteGroupsOperator.partial(task_id="t", **STORED).expand_kwargs([literal, *found])
    assert render(dag, tasks, 2, secret="s3cret").group_ids == [name]
    assert render(dag, tasks, 0, first="a").group_ids == ["a"]


@pytest.mark.parametrize("kind", [set, frozenset, iter, dict.fromkeys], ids=lambda kind: kind.__name__)
def test_a_template_in_any_collection_is_rendered(kind: Callable[[Any], Any]) -> None:
    """It was read as it is, when the DAG file was: the pattern ``{{ keep }}-*`` keeps nothing."""
    given = kind(["{{ keep }}-*", "a"])
    with a_dag() as dag:
        task = PlanCleanupOperator(task_id="t", **STORED, exclude=given.keys() if isinstance(given, dict) else given)
    assert set(render(dag, task, keep="pay").exclude) == {"pay-*", "a"}


def test_a_set_is_the_same_list_in_each_process() -> None:
    """Airflow makes a new version of a DAG whose arguments differ."""
    names = {f"group-{number}" for number in range(9)}
    assert PlanCleanupOperator(task_id="t", **STORED, exclude=names).exclude == tuple(sorted(names))


class Mail:
    """What has templates of its own, as Airflow's notifiers have."""

    template_fields = ("subject",)

    def __init__(self) -> None:
        self.subject = "{{ subject }}"


class Mailing(PlanCleanupOperator):
    """A site's own subclass, which has Airflow render the templates of something else, too."""

    template_fields = ("mail", *PlanCleanupOperator.template_fields)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mail = Mail()


def test_a_subclass_may_have_something_with_templates_of_its_own() -> None:
    """With its templates rendered, those of the arguments were read as they are."""
    with a_dag() as dag:
        task = Mailing(task_id="t", **STORED, max_groups="{{ most }}", exclude=["{{ keep }}-*"])
    made = render(dag, task, most=5, keep="pay", subject="a plan")
    assert (made.mail.subject, made.max_groups, made.exclude) == ("a plan", 5, ("pay-*",))


@pytest.mark.parametrize(
    "task",
    [
        lambda: PlanCleanupOperator(task_id="t", **STORED, exclude=["{{ keep }}-*"]),
        lambda: RestoreGroupOffsetsOperator(task_id="t", **STORED, plan_id="p", overwrite="{{ overwrite }}"),
        lambda: DeleteGroupsOperator(task_id="t", **STORED, group_ids=["a"], allow_hidden_topics="{{ hidden }}"),
        lambda: PruneFilesOperator(task_id="t", **STORED, dry_run=False, keep_newest="{{ keep }}"),
        lambda: GroupsEmptySensor(task_id="t", group_ids=["{{ group }}"]),
        lambda: KafkaSparkSubmitOperator(
            task_id="t", application="/my/job.py", application_args=["{{ group }}"], kafka="off"
        ),
    ],
    ids=["plan", "restore", "delete", "prune", "sensor", "job"],
)
def test_a_template_that_nobody_rendered_is_no_value(task: Callable[[], Any]) -> None:
    """A function that calls ``execute()`` itself renders nothing: any text is true, and a pattern keeps nothing."""
    with pytest.raises(ConfigurationError, match=r"(exclude|overwrite|topics|newest|group_ids|args): .*not rendered"):
        task().execute({})


def test_nothing_is_planned_by_a_pattern_that_nobody_rendered(admin: FakeAdmin, tmp_path: Path) -> None:
    snapshot_id = scene.judged_once(admin, tmp_path, ["pay-1", "b"])
    with pytest.raises(ConfigurationError, match="exclude"):
        scene.plan(tmp_path, snapshot_id=snapshot_id, exclude=["{{ 'pay' }}-*"], max_share=1)


def test_a_name_that_a_task_sets_by_itself_is_no_template() -> None:
    with a_dag() as dag:
        task = DeleteGroupsOperator(task_id="t", **STORED, group_ids=["a"]).prepare_for_execution()
        render(dag, task)
    task.group_ids = ["{{ a"]
    assert task.group_ids == ["{{ a"]
    task.require_read()


@pytest.mark.parametrize("place", [Path("/data"), ObjectStoragePath("s3://aws@bucket/groups")], ids=["disk", "store"])
def test_a_path_that_is_no_string_is_said_to_be_none(place: Any) -> None:
    """The error asked whether its template renders to nothing."""
    with pytest.raises(ConfigurationError, match=r"storage_path .*must be a string: a path or a URL"):
        ListGroupOffsetsOperator(task_id="t", storage_path=place)


class WithNote(PlanCleanupOperator):
    """A site's own subclass with a field that is no argument of the package."""

    template_fields = (*PlanCleanupOperator.template_fields, "note")

    def __init__(self, *, note: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.note = note


def test_a_template_sees_the_arguments_that_are_rendered_before_it() -> None:
    """In another order, which differed by process, a pattern had the text of a template, and kept nothing."""
    of_cluster = ["{{ task.cluster }}-*"]
    with a_dag() as dag:
        task = WithNote(
            task_id="t",
            storage_path="/data",
            cluster="{{ name }}",
            policy_file="/{{ task.cluster }}.yaml",
            protected=of_cluster,
            exclude=of_cluster,
            include=of_cluster,
            note="of {{ task.cluster }}",
        )
    task = render(dag, task, name="prod")
    patterns = ("prod-*",)
    assert (task.exclude, task.include, task.policy_file) == (patterns, patterns, "/prod.yaml")
    assert task.note == "of prod"


class WithFewFields(PlanCleanupOperator):
    """A site's own subclass that has forgotten the fields of its base."""

    template_fields = ("include",)


def test_an_argument_that_a_subclass_left_out_of_its_fields_is_rendered() -> None:
    """The text of a template would count as the pattern, and keep nothing."""
    with a_dag() as dag:
        task = WithFewFields(task_id="t", **STORED, include=["{{ keep }}"], exclude=["{{ keep }}-*"])
    assert render(dag, task, keep="pay").exclude == ("pay-*",)


def test_a_dag_that_escapes_html_escapes_no_name() -> None:
    """As one does whose mails are templates: the pattern R&amp;D-* keeps nothing."""
    with a_dag(jinja_environment_kwargs={"autoescape": True}) as dag:
        task = WithNote(
            task_id="t", **STORED, exclude=["{{ keep }}-*"], include="{{ [keep] | tojson }}", note="{{ keep }}"
        )
        job = KafkaSparkSubmitOperator(task_id="s", application="x.py", spark={"conf": {"spark.a": "{{ keep }}"}})
    task = render(dag, task, keep="R&D")
    assert (task.exclude, task.include, task.note) == (("R&D-*",), ("R&D",), "R&amp;D")
    assert render(dag, job, keep="R&D").spark == {"conf": {"spark.a": "R&D"}}
