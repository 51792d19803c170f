"""A DAG with delimiters of its own for templates: what is not rendered in it is refused, also beside what is."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.operators.offset_changes import AlterGroupOffsetsOperator
from airflow_kafka_groups.operators.plan import PlanCleanupOperator

pytestmark = pytest.mark.safety

STORED: dict[str, Any] = {"storage_path": "/data", "cluster": "prod"}
BLOCKS = {"block_start_string": "<%", "block_end_string": "%>"}
VARIABLES = {"variable_start_string": "<<", "variable_end_string": ">>"}


def rendered(own: dict[str, str], operator: Any, **arguments: Any) -> Any:
    """Return a rendered task in a DAG with delimiters of its own."""
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, jinja_environment_kwargs=own):
        task = operator(task_id="t", **arguments)
    task.render_template_fields({"params": {"team": "a"}})
    return task


@pytest.mark.parametrize(
    "given",
    [
        ["{{ params.team }}-*", "<% if params.team %>payments-*<% endif %>"],
        '["{{ params.team }}-*", "<% if params.team %>payments-*<% endif %>"]',
        '["{{ params.team }}-<% if params.team %>payments-<% endif %>*"]',
        ["{{ params.team }}<% if params.team %>b<% endif %>"],
    ],
)
def test_a_template_of_such_a_dag_beside_others_is_no_pattern_that_keeps_nothing(given: Any) -> None:
    """The argument has a template, and so was rendered, but not that part of it."""
    with pytest.raises(ConfigurationError, match=r"exclude.*'<%', which begins a template in this DAG.*leave these"):
        rendered(BLOCKS, PlanCleanupOperator, **STORED, exclude=given)


@pytest.mark.parametrize(
    ("own", "given"),
    [
        (VARIABLES, ["{{ params.team }}-*"]),
        (VARIABLES, '["{{ params.team }}-*", "b"]'),
        (VARIABLES | BLOCKS, ["{{ params.team }}-*"]),
        (BLOCKS, ["{% if params.team %}payments-*{% endif %}"]),
    ],
)
def test_a_usual_template_that_begins_none_in_such_a_dag_is_no_pattern_that_keeps_nothing(
    own: dict[str, str], given: Any
) -> None:
    """Jinja left ``{{ params.team }}-*`` as it is."""
    with pytest.raises(ConfigurationError, match=r"exclude.*which begins no template in this DAG.*leave these names"):
        rendered(own, PlanCleanupOperator, **STORED, exclude=given)


def test_offsets_and_places_in_such_a_dag_are_not_taken_as_they_are_written() -> None:
    offsets = {"{{ params.team }}": {"t": {0: 5}}}
    with pytest.raises(ConfigurationError, match=r"offsets: has '{{', which begins no template"):
        rendered(VARIABLES, AlterGroupOffsetsOperator, **STORED, offsets=offsets)
    place = {"storage_path": "s3://AKIA:hunter2@{{ params.team }}/b", "cluster": "prod"}
    with pytest.raises(ConfigurationError, match=r"storage_path: has '{{', which begins no template") as caught:
        rendered(VARIABLES, DeleteGroupsOperator, **place, group_ids=["a"])
    assert "hunter2" not in str(caught.value)
