"""A part of a template that renders to nothing is an error, whatever is beside it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.operators.plan import PlanCleanupOperator

pytestmark = pytest.mark.safety

STORED: dict[str, Any] = {"storage_path": "/data", "cluster": "prod"}


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("item", ["{{ params.team }}-{{ params.env }}-*", "{{ params.team }}-{{ params.env }}"])
@pytest.mark.parametrize("in_json", [False, True])
def test_nothing_is_found_beside_a_name_with_the_sign_that_parts_them(
    item: str, *, in_json: bool, native: bool
) -> None:
    """``team-a-None-*`` was taken for ``a-None`` of the team ``team``: it keeps none of the groups of ``team-a``."""
    given: Any = f'["a", "{item}"]' if in_json else ["a", item]
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, render_template_as_native_obj=native):
        tasks = [PlanCleanupOperator(task_id=f"t{number}", **STORED, exclude=given) for number in range(2)]
    with pytest.raises(ConfigurationError, match=r"exclude.*rendered to nothing"):
        tasks[0].render_template_fields({"params": {"team": "team-a", "env": None}})
    tasks[1].render_template_fields({"params": {"team": "team-None", "env": "Nonesuch"}})
    assert tasks[1].exclude[-1] == item.replace("{{ params.team }}-{{ params.env }}", "team-None-Nonesuch")


def test_nothing_is_found_beside_a_blank() -> None:
    task = DeleteGroupsOperator(task_id="t", **STORED, group_ids='["a", " {{ params.group }}-dlq"]')
    with pytest.raises(ConfigurationError, match=r"group_ids.*rendered to nothing"):
        task.render_template_fields({"params": {"group": None}})


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    "item",
    [
        "{% if params.site %}{{ params.site }}-{% endif %}{{ params.team }}-*",
        "{% set team = params.team %}{{ team }}_*",
        "{% if params.team != 1 %}{{ params.team }}{% endif %}",
        "{{ params.team }}{# all of it #}-*",
        "{{ {'a': {'b': params.team}}['a']['b'] }}-*",
        "{{ '}}' | length and params.team }}-*",
        "{{ params.team }} {#- all of it -#} -{{ params.team }}",
    ],
)
def test_nothing_beside_a_block_or_a_comment_is_no_part_of_a_name(item: str, *, native: bool) -> None:
    """These were looked for in the text: ``None-*`` was a pattern, which keeps nothing."""
    given: Any = ["a", item]
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, render_template_as_native_obj=native):
        tasks = [PlanCleanupOperator(task_id=f"t{number}", **STORED, exclude=given) for number in range(2)]
    with pytest.raises(ConfigurationError, match=r"exclude.*rendered to nothing"):
        tasks[0].render_template_fields({"params": {"site": "x", "team": None}})
    tasks[1].render_template_fields({"params": {"site": None, "team": "Nonesuch"}})
    assert tasks[1].exclude[1].startswith("Nonesuch")


def test_a_group_called_none_may_be_in_a_list_that_a_loop_writes() -> None:
    given: Any = "[{% for each in params.names %}{{ each | tojson }}{{ ',' if not loop.last }}{% endfor %}]"
    task = DeleteGroupsOperator(task_id="t", **STORED, group_ids=given)
    task.render_template_fields({"params": {"names": ["None", "a-None"]}})
    assert task.group_ids == ["None", "a-None"]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("item", ["{% if params.team %}{{ params.team }}{% endif %}-dlq\n", "{{ params.team }}-dlq\n"])
def test_a_line_end_after_a_block_is_no_part_of_a_name(item: str, *, native: bool) -> None:
    """Jinja takes one from the end of a template, as of a text of several lines: the name was that of another group."""
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, render_template_as_native_obj=native):
        task = DeleteGroupsOperator(task_id="t", **STORED, group_ids=[item])
    task.render_template_fields({"params": {"team": "orders"}})
    assert task.group_ids == ["orders-dlq"]
