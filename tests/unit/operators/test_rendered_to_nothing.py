"""A template that renders to nothing is an error, wherever it is: nothing may mean all, or a group of that name."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.operators.plan import PlanCleanupOperator
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


def test_a_group_that_is_called_none_can_be_named() -> None:
    named: dict[str, Any] = {"group_ids": ["None", "{{ params.other }}"]}
    task = DeleteGroupsOperator(task_id="t", **STORED, **named)
    task.render_template_fields({"params": {"other": "b"}})
    assert task.group_ids == ["None", "b"]
    listed = DeleteGroupsOperator(task_id="t", **STORED, group_ids="{{ params.groups | tojson }}")
    listed.render_template_fields({"params": {"groups": ["None"]}})
    assert listed.group_ids == ["None"]
