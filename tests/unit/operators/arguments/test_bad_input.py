"""What is wrong is said when the DAG is parsed, if it can be known there, and when it is rendered otherwise."""

import copy
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.arguments import read_integer
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.operators.groups import (
    ChunkGroupsOperator,
    DescribeGroupsOperator,
    FindCoordinatorsOperator,
    ListGroupsOperator,
)
from airflow_kafka_groups.operators.offset_changes import (
    AlterGroupOffsetsOperator,
    CopyGroupOffsetsOperator,
    MigrateGroupOffsetsOperator,
    ResetGroupOffsetsOperator,
)
from airflow_kafka_groups.operators.offsets import ListGroupLagOperator, ListGroupOffsetsOperator
from airflow_kafka_groups.operators.plan import PlanCleanupOperator
from airflow_kafka_groups.operators.pruning import PruneFilesOperator
from airflow_kafka_groups.operators.spark import (
    CommitGroupBacklogOperator,
    KafkaSparkSubmitOperator,
)
from airflow_kafka_groups.sensors.groups import DeleteGroupsSensor, FindCoordinatorsSensor, GroupsStalledSensor
from airflow_kafka_groups.sensors.offsets import ListGroupOffsetsSensor

STORED: dict[str, Any] = {"storage_path": "/x"}
RESET: dict[str, Any] = {**STORED, "group_ids": ["a"]}

WRONG: list[tuple[type[BaseOperator], dict[str, Any], str]] = [
    (FindCoordinatorsOperator, {"group_ids": "orders"}, "group_ids"),
    (FindCoordinatorsOperator, {"group_ids": []}, "group_ids"),
    (FindCoordinatorsOperator, {"transactional_ids": [1]}, "transactional_ids"),
    (FindCoordinatorsOperator, {"group_ids": ["a"], "transactional_ids": ["x"]}, "at most one"),
    (FindCoordinatorsOperator, {"include": ["re:("]}, "include"),
    (FindCoordinatorsOperator, {"exclude": "a"}, "exclude"),
    (FindCoordinatorsOperator, {"fail_on_error": "no"}, "fail_on_error"),
    (FindCoordinatorsOperator, {"kafka_groups_conn_id": " "}, "kafka_groups_conn_id"),
    (FindCoordinatorsOperator, {"kafka_groups_conn_id": 5}, "kafka_groups_conn_id"),
    (ListGroupsOperator, {"states": ["Emty"]}, "Known are .*Empty"),
    (ListGroupsOperator, {"types": ["clasic"]}, "Known are .*classic"),
    (ListGroupsOperator, {"states": "Empty"}, "states"),
    (DescribeGroupsOperator, {"group_ids": {"a": 1}}, "group_ids"),
    (ChunkGroupsOperator, {"chunk_size": 0}, "chunk_size"),
    (ChunkGroupsOperator, {"chunk_size": 1.5}, "chunk_size"),
    (ListGroupLagOperator, {"max_lag": -1}, "max_lag"),
    (ListGroupLagOperator, {"fail_if_lagging": 1}, "fail_if_lagging"),
    (ListGroupOffsetsOperator, {"storage_path": "relative"}, "storage_path"),
    (ListGroupOffsetsOperator, {"storage_path": ""}, "storage_path"),
    (DeleteGroupsOperator, {**STORED, "group_ids": ["a"], "dry_run": "maybe"}, "dry_run"),
    (DeleteGroupsOperator, {**STORED, "group_ids": ["a"], "observe_seconds": -1}, "observe_seconds"),
    (DeleteGroupsOperator, {**STORED, "group_ids": ["a"], "ignore_missing": "yes"}, "ignore_missing"),
    (DeleteGroupsOperator, {**STORED, "group_ids": ["a"], "observe_seconds": "1e300"}, "observe_seconds"),
    *((DeleteGroupsOperator, {**RESET, "lease_wait_seconds": wrong}, "lease_wait_seconds") for wrong in ("inf", -1)),
    *((DeleteGroupsOperator, {**RESET, "lease": wrong}, "lease") for wrong in ("maybe", None)),
    *((DeleteGroupsOperator, {**RESET, name: -1}, name) for name in ("groups_per_second", "bytes_per_second")),
    (PlanCleanupOperator, {**STORED, "max_groups": "inf"}, "max_groups"),
    (PlanCleanupOperator, {**STORED, "max_groups": 10**400}, "max_groups"),
    (PlanCleanupOperator, {**STORED, "min_idle_seconds": float("inf")}, "min_idle_seconds"),
    (PlanCleanupOperator, {**STORED, "exclude": ["orders-* "]}, "exclude"),
    (PruneFilesOperator, {**STORED, "cleanup_days": "1e300"}, "cleanup_days"),
    (PlanCleanupOperator, {**STORED, "min_observations": 1}, "min_observations"),
    (PlanCleanupOperator, {**STORED, "min_idle_seconds": "a week"}, "min_idle_seconds"),
    (PlanCleanupOperator, {**STORED, "max_groups": 0}, "max_groups"),
    (PlanCleanupOperator, {**STORED, "max_share": 1.5}, "max_share"),
    (ResetGroupOffsetsOperator, {**RESET, "to": "newest"}, "to"),
    (ResetGroupOffsetsOperator, {**RESET, "timestamp": "yesterday"}, "timestamp"),
    (ResetGroupOffsetsOperator, {**RESET, "timestamp": "2026-01-01T00:00:00"}, "zone"),
    (ResetGroupOffsetsOperator, {**RESET, "shift_by": "x"}, "shift_by"),
    (ResetGroupOffsetsOperator, {**RESET, "to": "latest", "shift_by": 1}, "exactly one"),
    (ResetGroupOffsetsOperator, RESET, "exactly one"),
    (AlterGroupOffsetsOperator, {**STORED, "offsets": {"g": {"t": {0: -5}}}}, "offset"),
    (AlterGroupOffsetsOperator, {**STORED, "offsets": {}}, "offsets"),
    (CopyGroupOffsetsOperator, {**STORED, "groups": {}}, "groups"),
    (CopyGroupOffsetsOperator, {**STORED, "groups": {"a": None}}, "groups"),
    (CopyGroupOffsetsOperator, {**STORED, "groups": "a"}, "groups"),
    (CopyGroupOffsetsOperator, {**STORED, "groups": {"a": "b"}, "existing": "merge"}, "existing"),
    (MigrateGroupOffsetsOperator, {**STORED, "source_conn_id": "s", "method": "guess"}, "method"),
    (
        MigrateGroupOffsetsOperator,
        {**STORED, "source_conn_id": "s", "method": "header", "mapping": {"t": ""}},
        "mapping",
    ),
    (FindCoordinatorsSensor, {"group_ids": ["a", 1]}, "group_ids"),
    (DeleteGroupsOperator, {**STORED, "group_ids": ["a", ""]}, "group_ids"),
    (ResetGroupOffsetsOperator, {**STORED, "group_ids": ["a", ""], "to": "earliest"}, "group_ids"),
    (DeleteGroupsSensor, {"group_ids": "a b"}, "group_ids"),
    (GroupsStalledSensor, {"group_ids": ["a"], "seconds": -1}, "seconds"),
    (GroupsStalledSensor, {"group_ids": ["a"], "seconds": 1, "only_with_lag": "x"}, "only_with_lag"),
    (ListGroupOffsetsSensor, {"group_ids": ["a"], "max_total_lag": -1}, "max_total_lag"),
    (ListGroupOffsetsSensor, {"group_ids": ["a"], "max_lag_seconds": "soon"}, "max_lag_seconds"),
    (ListGroupOffsetsSensor, {"targets": {"a": 5}}, "targets"),
    (ListGroupOffsetsSensor, {"group_ids": ["a"], "to_end": "yes"}, "to_end"),
]


@pytest.mark.parametrize(("operator", "arguments", "said"), WRONG, ids=lambda value: getattr(value, "__name__", None))
def test_what_a_dag_file_says_outright_is_checked_when_it_is_parsed(
    operator: type[BaseOperator], arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        operator(task_id="t", **arguments)


def test_templates_and_other_tasks_output_wait_until_they_have_a_value() -> None:
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None):
        chunks = ChunkGroupsOperator(task_id="chunks", chunk_size="{{ params.size }}")
        DescribeGroupsOperator(task_id="one", group_ids=chunks.output)  # type: ignore[arg-type]  # Airflow resolves it
        DescribeGroupsOperator(task_id="two", group_ids=["a", "{{ params.b }}"])
        DescribeGroupsOperator.partial(task_id="many").expand(group_ids=chunks.output)
        ListGroupOffsetsSensor(task_id="three", targets={"{{ params.g }}": {"t": {0: "{{ params.o }}"}}})
        ListGroupsOperator(task_id="four", states="{{ params.states | tojson }}")


def test_what_execute_uses_is_what_the_reader_returned() -> None:
    plan = PlanCleanupOperator(task_id="t", **STORED, include='["a-*"]', max_groups="{{ params.most }}")
    assert plan.include == ("a-*",)
    plan.render_template_fields({"params": {"most": 7}})
    assert plan.max_groups == 7
    reset = ResetGroupOffsetsOperator(task_id="t", **RESET, timestamp="1970-01-01T00:00:01+00:00")
    assert reset.timestamp == 1000
    targets = ListGroupOffsetsSensor(task_id="t", targets={"g": {"t": {"0": "5"}}})
    for _ in range(2):
        assert targets.targets == {"g": {TopicPartition("t", 0): 5}}
        targets.render_template_fields({})


def rendered_of_mapped(group_ids: list[list[str]], size: str, map_index: int) -> Any:
    """Return one task of a mapped one, as Airflow renders it; one of its arguments is a template."""
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, params={"size": size}) as dag:
        tasks = ChunkGroupsOperator.partial(task_id="t", chunk_size="{{ params.size }}").expand(group_ids=group_ids)
    run = SimpleNamespace(conf={})
    context: Any = {"dag": dag, "dag_run": run, "ti": SimpleNamespace(map_index=map_index)}
    tasks.render_template_fields(context)
    return context["task"]


def test_a_mapped_task_reads_what_it_is_given() -> None:
    task = rendered_of_mapped([["x"], ["a", "b", "a"]], "9", 1)
    assert (task.group_ids, task.chunk_size) == (["a", "b"], 9)


@pytest.mark.parametrize(
    ("group_ids", "size", "said"), [([[], ["a"]], "9", "empty list"), ([["a"], ["b"]], "0", "chunk_size")]
)
def test_a_mapped_task_refuses_what_it_cannot_use(group_ids: list[list[str]], size: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        rendered_of_mapped(group_ids, size, 0)


def test_a_copy_of_a_task_renders_by_itself() -> None:
    """Airflow copies a task before it renders the copy; the original goes on holding its templates."""
    original = DescribeGroupsOperator(task_id="t", group_ids="{{ params.groups | tojson }}")
    for groups in (["a"], ["b"]):
        task = original.prepare_for_execution()
        task.render_template_fields({"params": {"groups": groups}})
        assert task.group_ids == groups
    nothing = copy.copy(original)
    with pytest.raises(ConfigurationError, match="rendered to nothing"):
        nothing.group_ids = None


@pytest.mark.safety
def test_settings_that_may_hold_secrets_are_refused_without_being_shown() -> None:
    operator = KafkaSparkSubmitOperator(task_id="t", application="lag_report", spark="{{ params.spark }}")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="spark: must be a mapping") as refused:
        operator.render_template_fields({"params": {"spark": "conf=s3cr3t"}})
    assert "s3cr3t" not in str(refused.value)


def test_an_offset_too_large_for_a_float_is_read_exactly() -> None:
    for given in (2**53 + 1, str(2**53 + 1), f" {2**53 + 1} "):
        assert read_integer("offset", given) == 2**53 + 1
    assert [read_integer("offset", given) for given in ("1e3", "7.0", 7.0)] == [1000, 7, 7]


def test_a_connection_that_is_none_is_said_by_its_name() -> None:
    operator = PruneFilesOperator(task_id="t", **STORED)
    with pytest.raises(ConfigurationError, match="kafka_groups_conn_id"):
        operator.kafka_groups_conn_id = None  # as a native template may render it


@pytest.mark.parametrize("by_keywords", [False, True])
def test_a_literal_that_a_task_is_mapped_over_may_be_a_template(*, by_keywords: bool) -> None:
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None) as dag:
        partial = DescribeGroupsOperator.partial(task_id="t")
        many = ["{{ first }}", "b"]
        tasks = partial.expand_kwargs([{"group_ids": many}]) if by_keywords else partial.expand(group_ids=[many])
    context: Any = {"dag": dag, "dag_run": SimpleNamespace(conf={}), "ti": SimpleNamespace(map_index=0)}
    context["first"] = "a"
    tasks.render_template_fields(context)
    assert context["task"].group_ids == ["a", "b"]


@pytest.mark.safety
@pytest.mark.parametrize("field", ["storage_path", "policy_file"])
@pytest.mark.parametrize("templated", [True, False])
def test_a_secret_in_a_url_reaches_no_page_of_the_task(field: str, *, templated: bool) -> None:
    """Airflow shows and stores arguments as they were rendered, before the task begins."""
    url = "s3://AKIA:h1dden@bucket/x"
    with DAG("d", schedule=None, params={"place": url}):
        arguments = {"storage_path": "/data", field: "{{ params.place }}" if templated else url}
        if not templated:
            with pytest.raises(ConfigurationError, match=rf"{field} \(got 's3://…'\)"):
                PlanCleanupOperator(task_id="plan", **arguments)
            return
        task = PlanCleanupOperator(task_id="plan", **arguments)
    with pytest.raises(ConfigurationError, match=rf"{field} \(got 's3://…'\)") as caught:
        task.render_template_fields({"params": {"place": url}})
    assert "h1dden" not in str(caught.value)


@pytest.mark.safety
def test_a_secret_in_the_url_of_a_job_s_result_reaches_no_page_of_the_task() -> None:
    with DAG("d", schedule=None):
        task = CommitGroupBacklogOperator(
            task_id="commit", backlog_id="x", result_path="{{ place }}", storage_path="/data", cluster="c"
        )
    with pytest.raises(ConfigurationError, match=r"result_path \(got 's3://…'\)"):
        task.render_template_fields({"place": "s3://AKIA:h1dden@bucket/x"})  # type: ignore[typeddict-unknown-key]
