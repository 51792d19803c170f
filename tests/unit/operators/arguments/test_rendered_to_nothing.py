"""A template that renders to nothing is an error, wherever it is, and a name that is no template stays as it is."""

from __future__ import annotations

from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator
from airflow.sdk.definitions.xcom_arg import PlainXComArg

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.operators.groups import ListGroupsOperator
from airflow_kafka_groups.operators.offset_changes import AlterGroupOffsetsOperator, ResetGroupOffsetsOperator
from airflow_kafka_groups.operators.plan import PlanCleanupOperator
from airflow_kafka_groups.operators.spark import KafkaSparkSubmitOperator
from airflow_kafka_groups.sensors.groups import GroupsEmptySensor

pytestmark = pytest.mark.safety

STORED: dict[str, Any] = {"storage_path": "/data", "cluster": "prod"}
LISTS: list[tuple[type[BaseOperator], str, dict[str, Any]]] = [
    (DeleteGroupsOperator, "group_ids", STORED),
    (PlanCleanupOperator, "exclude", STORED),
    (GroupsEmptySensor, "group_ids", {}),
]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(("operator", "name", "arguments"), LISTS, ids=lambda value: getattr(value, "__name__", None))
def test_an_item_that_renders_to_nothing_is_no_group_called_none(
    operator: type[BaseOperator], name: str, arguments: dict[str, Any], *, native: bool
) -> None:
    """There are groups of that name: a program with ``group_id=str(None)`` has made them. A pattern keeps nothing."""
    given: dict[str, Any] = {**arguments, name: ["a", "{{ params.nothing }}"]}
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, render_template_as_native_obj=native):
        task = operator(task_id="t", **given)
    with pytest.raises(ConfigurationError, match=f"{name}.*rendered to nothing"):
        task.render_template_fields({"params": {"nothing": None}})


def test_nor_is_one_in_a_list_in_json() -> None:
    task = PlanCleanupOperator(task_id="t", **STORED, exclude='["a", "{{ params.nothing }}"]')
    with pytest.raises(ConfigurationError, match=r"exclude.*rendered to nothing"):
        task.render_template_fields({"params": {"nothing": None}})


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    "item", ["{{ params.nothing }}-*", "re:{{- params.nothing }}[.].*", "{{params.a}}.{{params.nothing}}"]
)
@pytest.mark.parametrize("in_json", [False, True])
def test_nor_is_nothing_in_the_middle_of_an_item_a_part_of_a_name(item: str, *, in_json: bool, native: bool) -> None:
    """The pattern ``None-*`` keeps none of the groups that it was to keep."""
    given: Any = f'["a", "{item}"]' if in_json else ["a", item]
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, render_template_as_native_obj=native):
        task = PlanCleanupOperator(task_id="t", **STORED, exclude=given)
    with pytest.raises(ConfigurationError, match=r"exclude.*rendered to nothing"):
        task.render_template_fields({"params": {"nothing": None, "a": "orders"}})


@pytest.mark.parametrize(
    ("item", "several"),
    [
        ("{{ params.keep }}", ["team-a.*", "team-b.*"]),
        ("{{ params.keep }}", ("team-a.*", "team-b.*")),
        ("{{ params.keep | tojson }}", ["team-a.*"]),
        ("{{ params.keep | join('\n') }}", ["team-a.*", "team-b.*"]),
        ("{% for each in params.keep %}{{ each }}\n{% endfor %}", ["team-a.*", "team-b.*"]),
    ],
)
def test_an_item_that_renders_to_several_is_no_pattern_that_keeps_nothing(item: str, several: Any) -> None:
    """The text of a list is a glob: one letter of those between the brackets."""
    task = PlanCleanupOperator(task_id="t", **STORED, exclude=["a", item])
    with pytest.raises(ConfigurationError, match=r"exclude.*rendered to several.*tojson"):
        task.render_template_fields({"params": {"keep": several}})


def test_a_storage_of_which_a_part_renders_to_nothing_is_no_other_storage() -> None:
    """It has no journal: each group was never deleted there, and never found in use."""
    place: dict[str, Any] = {"storage_path": "/data/{{ params.site }}/groups", "cluster": "prod"}
    task = DeleteGroupsOperator(task_id="t", **place, group_ids=["a"])
    with pytest.raises(ConfigurationError, match=r"storage_path.*/data/None/groups.*rendered to nothing"):
        task.render_template_fields({"params": {"site": None}})
    task = DeleteGroupsOperator(task_id="t", **place, group_ids=["a"])
    task.render_template_fields({"params": {"site": "None-such"}})
    assert task.storage_path == "/data/None-such/groups"


def test_a_word_for_a_program_may_be_any_text() -> None:
    words = ["{{ params.sql }}", "--topics={{ params.topics | tojson }}", "{{ params.topics | tojson }}"]
    task = KafkaSparkSubmitOperator(task_id="t", application="/my/job.py", application_args=words)
    task.render_template_fields({"params": {"sql": "select 1\nfrom t", "topics": ["a"]}})
    assert task.application_args == ["select 1\nfrom t", '--topics=["a"]', '["a"]']


@pytest.mark.parametrize("pattern", ["[0-9]", "[ab]", "(a)", "None-*", "orders-None", "a-None-b"])
def test_a_pattern_that_a_template_renders_to_is_none_of_these(pattern: str) -> None:
    task = PlanCleanupOperator(task_id="t", **STORED, exclude=["{{ params.pattern }}"])
    task.render_template_fields({"params": {"pattern": pattern}})
    assert task.exclude == (pattern,)


def test_a_name_beside_a_template_is_not_rendered() -> None:
    task = DeleteGroupsOperator(task_id="t", **STORED, group_ids=["orders\n", "{{ params.other }}"])
    task.render_template_fields({"params": {"other": "b"}})
    assert task.group_ids == ["orders\n", "b"]


def test_a_list_that_is_set_in_the_place_of_one_with_a_template_is_taken_as_it_is() -> None:
    """As a cluster policy of Airflow does: ``orders`` was deleted, though the list does not have it any more."""
    task: Any = DeleteGroupsOperator(task_id="t", **STORED, group_ids=["{{ params.other }}", "orders"])
    task.group_ids = ["a", "b"]
    task.render_template_fields({"params": {}})
    assert task.group_ids == ["a", "b"]


def test_a_group_that_is_called_none_can_be_named() -> None:
    named: dict[str, Any] = {"group_ids": ["None", "{{ params.other }}"]}
    task = DeleteGroupsOperator(task_id="t", **STORED, **named)
    task.render_template_fields({"params": {"other": "b"}})
    assert task.group_ids == ["None", "b"]
    listed = DeleteGroupsOperator(task_id="t", **STORED, group_ids="{{ params.groups | tojson }}")
    listed.render_template_fields({"params": {"groups": ["None"]}})
    assert listed.group_ids == ["None"]


@pytest.mark.parametrize("by_keywords", [False, True])
@pytest.mark.parametrize("name", ["topics", "group_ids"])
def test_nothing_among_what_a_task_is_mapped_over_is_not_all(
    monkeypatch: pytest.MonkeyPatch, name: str, *, by_keywords: bool
) -> None:
    """``topics=None`` resets the offsets of all topics: nobody meant that who mapped over another task's output."""
    monkeypatch.setattr(PlainXComArg, "resolve", lambda self, context: [{name: None}] if by_keywords else [None])
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None) as dag:
        output = ListGroupsOperator(task_id="l").output
        both: dict[str, Any] = {"group_ids": ["a"], "topics": ["t"]}
        del both[name]
        partial = ResetGroupOffsetsOperator.partial(task_id="t", **STORED, to="latest", **both)
        tasks = partial.expand_kwargs(output) if by_keywords else partial.expand(**{name: output})
    context: Any = {"dag": dag, "dag_run": SimpleNamespace(conf={}), "ti": SimpleNamespace(map_index=0)}
    with pytest.raises(ConfigurationError, match=name):
        tasks.render_template_fields(context)


@pytest.mark.parametrize("name", ["orders\n", "orders{# x #}"])
@pytest.mark.parametrize("mapped", [False, True])
def test_a_name_in_a_dag_file_that_is_no_template_is_not_rendered(name: str, *, mapped: bool) -> None:
    """Jinja makes ``orders`` of it, which is another group."""
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None) as dag:
        if mapped:
            tasks: Any = DeleteGroupsOperator.partial(task_id="t", **STORED).expand(group_ids=[[name]])
        else:
            tasks = DeleteGroupsOperator(task_id="t", **STORED, group_ids=[name])
    context: Any = {"dag": dag, "dag_run": SimpleNamespace(conf={}), "ti": SimpleNamespace(map_index=0), "task": tasks}
    tasks.render_template_fields(context)
    assert context["task"].group_ids == [name]


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("own", [{"variable_start_string": "<<"}, {"block_start_string": "<<"}])
def test_a_template_in_the_delimiters_of_its_dag_is_no_pattern_that_keeps_nothing(
    own: dict[str, str], *, mapped: bool
) -> None:
    """It was taken for a literal, and not rendered: the groups of that team were planned."""
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, jinja_environment_kwargs=own) as dag:
        if mapped:
            partial = PlanCleanupOperator.partial(task_id="t", **STORED)
            tasks: Any = partial.expand(exclude=[["a", "<< params.team >>-*"]])
        else:
            tasks = PlanCleanupOperator(task_id="t", **STORED, exclude=["a", "<< params.team >>-*"])
    context: Any = {"dag": dag, "dag_run": SimpleNamespace(conf={}), "ti": SimpleNamespace(map_index=0), "task": tasks}
    with pytest.raises(ConfigurationError, match=r"exclude.*'<<', which begins a template in this DAG"):
        tasks.render_template_fields(context)


def test_a_dag_with_its_own_delimiters_may_have_operators_without_templates() -> None:
    own = {"variable_start_string": "<<", "variable_end_string": ">>", "block_start_string": "{%"}
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, jinja_environment_kwargs=own):
        task = PlanCleanupOperator(task_id="t", **STORED, exclude=["a-*"])
    task.render_template_fields({})
    assert task.exclude == ("a-*",)


def in_delimiters(own: dict[str, str], operator: type[BaseOperator], **arguments: Any) -> Any:
    """Return a task in a DAG with delimiters of its own."""
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, jinja_environment_kwargs=own):
        return operator(task_id="t", **arguments)


def test_offsets_in_such_a_dag_are_no_templates() -> None:
    """Their keys are partitions, which JSON does not take: each such task ended in a ``TypeError``."""
    offsets = {"g": {"orders": {0: 5}}}
    task = in_delimiters({"variable_start_string": "<<"}, AlterGroupOffsetsOperator, **STORED, offsets=offsets)
    task.render_template_fields({})
    assert list(task.offsets["g"].values()) == [5]


def test_what_begins_a_template_at_the_beginning_of_a_line_begins_none_within_it() -> None:
    own = {"line_statement_prefix": "#"}
    task = in_delimiters(own, PlanCleanupOperator, **STORED, exclude=["team#1-*"])
    task.render_template_fields({})
    assert task.exclude == ("team#1-*",)
    task = in_delimiters(own, PlanCleanupOperator, **STORED, exclude=["# set team = 1"])
    with pytest.raises(ConfigurationError, match=r"exclude.*begins a template in this DAG"):
        task.render_template_fields({})


@pytest.mark.parametrize(
    "given",
    [
        {"spark": {"conf": {"spark.my.word": "open-sesame", "spark.x": "<< params.x >>"}}},
        {"application_args": ["--word", "open-sesame", "<< params.x >>"]},
    ],
    ids=["properties", "words"],
)
def test_an_error_about_such_a_template_shows_nothing_else_of_a_job(given: Any) -> None:
    own = {"variable_start_string": "<<"}
    task = in_delimiters(own, KafkaSparkSubmitOperator, application="/my/job.py", **given)
    with pytest.raises(ConfigurationError, match=r"begins a template in this DAG") as caught:
        task.render_template_fields({})
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    ("own", "given"),
    [
        ({"variable_start_string": "<<", "variable_end_string": ">>"}, ["a", "{{ params.team }}-*"]),
        ({"variable_start_string": "<<", "variable_end_string": ">>"}, '["a", "{{ params.team }}-*"]'),
        ({"block_start_string": "<%", "block_end_string": "%>"}, ["a", "{% if true %}b{% endif %}-*"]),
    ],
)
def test_a_template_in_the_usual_delimiters_is_no_pattern_that_keeps_nothing_where_the_dag_has_its_own(
    own: dict[str, str], given: Any
) -> None:
    """It was not rendered, and the groups of that team were planned."""
    task = in_delimiters(own, PlanCleanupOperator, **STORED, exclude=given)
    with pytest.raises(ConfigurationError, match=r"exclude.*'\{[{%]', which begins no template in this DAG"):
        task.render_template_fields({"params": {"team": "b"}})
    own |= {"variable_start_string": "<<", "variable_end_string": ">>"}
    job = in_delimiters(own, KafkaSparkSubmitOperator, application="/my/job.py", application_args=["{{ its }own"])
    job.render_template_fields({})
    assert job.application_args == ["{{ its }own"]


@pytest.mark.parametrize("by_keywords", [False, True])
def test_a_group_of_another_tasks_output_may_be_called_like_such_a_template(
    monkeypatch: pytest.MonkeyPatch, *, by_keywords: bool
) -> None:
    value = {"group_ids": ["<<a"]} if by_keywords else ["<<a"]
    monkeypatch.setattr(PlainXComArg, "resolve", lambda self, context: [value])
    own = {"variable_start_string": "<<"}
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, jinja_environment_kwargs=own) as dag:
        output = ListGroupsOperator(task_id="l").output
        partial = DeleteGroupsOperator.partial(task_id="t", **STORED)
        tasks: Any = partial.expand_kwargs(output) if by_keywords else partial.expand(group_ids=output)
    context: Any = {"dag": dag, "dag_run": SimpleNamespace(conf={}), "ti": SimpleNamespace(map_index=0), "task": tasks}
    tasks.render_template_fields(context)
    assert context["task"].group_ids == ["<<a"]


def test_a_password_in_a_url_is_in_no_error_about_a_part_of_it_that_is_nothing() -> None:
    """Its reader shows none either, but is not asked before."""
    given = "s3://AKIA:{{ params.secret }}@bucket/{{ params.team }}"
    task = DeleteGroupsOperator(task_id="t", storage_path=given, cluster="prod", group_ids=["a"])
    with pytest.raises(ConfigurationError, match=r"storage_path: a part of it.*rendered to nothing") as caught:
        task.render_template_fields({"params": {"secret": "hidden", "team": None}})
    assert "hidden" not in str(caught.value)
