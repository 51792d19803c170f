"""Arguments of the trigger that assets watch with: nobody renders them, and Airflow stores them."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.triggers.events import GroupsEventTrigger


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("include", ["{{ var.value.team }}-*"]),
        ("exclude", ["a", "{{ var.value.team }}-*"]),
        ("exclude", '["{{ var.value.team }}-*"]'),
        ("exclude", {"{% if x %}a{% endif %}"}),
        ("kafka_groups_conn_id", "{{ var.value.connection }}"),
        ("policy_file", "/data/{{ var.value.site }}/policy.yaml"),
    ],
)
def test_a_template_is_refused_since_nobody_renders_it(name: str, value: Any) -> None:
    """An ``exclude`` that was read as it is excluded nothing, and the DAG that the event starts got those groups."""
    event: Any = {"event": "growing"} if name == "policy_file" else {"event": "empty"}
    with pytest.raises(ConfigurationError, match=rf"{name}: has a template, and Airflow renders none"):
        GroupsEventTrigger(**event, **{name: value})


def test_a_set_is_the_same_trigger_in_each_process() -> None:
    """Airflow starts a new trigger for an asset whose trigger differs, and that reports nothing of its first poll."""
    more: Any = iter(["a"])
    names: Any = {f"group-{number}" for number in range(9)}
    _, arguments = GroupsEventTrigger(event="empty", include=names, exclude=more).serialize()
    assert (arguments["include"], arguments["exclude"]) == (sorted(names), ["a"])
