"""Parts of the shipped DAGs that need no run: fields of the form that are left empty, and names in an alert."""

import importlib
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.operators.dag_params import dag_params
from airflow_kafka_groups.operators.offsets import ListGroupLagOperator
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup

NAME = "a\nForged: all is well" + "x" * 30_000


def dag_file(name: str) -> Any:
    return importlib.import_module(f"airflow_kafka_groups.example_dags.{name}")


@pytest.mark.parametrize(
    ("name", "task_id"),
    [
        ("backup_and_restore_drill", "backup"),
        ("lag_alert", "measure"),
        ("prune_abandoned_topics", "plan"),
        ("cleanup_stale_groups", "plan"),
    ],
)
@pytest.mark.parametrize("excluded", [None, [], ["a*"]])
def test_nothing_to_exclude_is_no_pattern(name: str, task_id: str, excluded: list[str] | None) -> None:
    """Airflow's form sends null for a field that was cleared."""
    dag_params("exclude")["exclude"].resolve(excluded)
    task = getattr(dag_file(name), task_id)
    template = task.dag.get_template_env().from_string(vars(task)["exclude"])
    again = task.prepare_for_execution()
    again.exclude = template.render(params={"exclude": excluded})
    assert again.exclude == tuple(excluded or ())


@pytest.mark.safety
def test_the_lag_alert_names_groups_on_one_line(admin: FakeAdmin) -> None:
    admin.groups = {NAME: FakeGroup({TopicPartition("t", 0): 0})}
    found = ListGroupLagOperator(task_id="t", max_lag=1).execute({})
    with pytest.raises(AirflowFailException, match=r"the most lagging: a\\nForged: all is well") as caught:
        dag_file("lag_alert").alert.function(found)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 2_000


@pytest.mark.safety
def test_the_lag_alert_names_the_most_lagging_groups_whatever_the_order_of_the_xcom() -> None:
    """PostgreSQL has XComs as JSONB, which sorts names by their length: those with the shortest ids were named."""
    lags = {f"g{number}": number for number in range(1, 8)} | {"the-one-that-lags": 9_000_000}
    found = {"lagging": len(lags), "groups": 50, "lagging_groups": lags}
    with pytest.raises(AirflowFailException) as caught:
        dag_file("lag_alert").alert.function(found)
    most = "the-one-that-lags (9000000), g7 (7), g6 (6), g5 (5), g4 (4)"
    assert str(caught.value) == f"8 of 50 groups lag too much, the most lagging: {most}"
