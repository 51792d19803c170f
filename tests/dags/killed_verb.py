"""A process that runs one verb by its operator in a DAG, and may be killed in the middle of it."""

import os
import signal
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from typing import Any

from airflow.sdk import DAG

from airflow_kafka_groups.kafka import AdminClient
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.operators.groups import RemoveMembersOperator
from airflow_kafka_groups.operators.offset_changes import (
    AlterGroupOffsetsOperator,
    CopyGroupOffsetsOperator,
    DeleteGroupOffsetsOperator,
    ResetGroupOffsetsOperator,
)
from tests.dags.runs import runnable

VERBS: dict[str, tuple[Any, str]] = {
    "reset": (ResetGroupOffsetsOperator, "alter_consumer_group_offsets"),
    "set": (AlterGroupOffsetsOperator, "alter_consumer_group_offsets"),
    "copy": (CopyGroupOffsetsOperator, "alter_consumer_group_offsets"),
    "delete": (DeleteGroupsOperator, "delete_consumer_groups"),
    "delete-offsets": (DeleteGroupOffsetsOperator, "delete_consumer_group_offsets"),
    "remove-members": (RemoveMembersOperator, "remove_members_from_consumer_group"),
}
"""For each verb: its operator, and the call by which it asks the brokers for the change."""


def die_at(method: str, moment: str) -> None:
    """Have this process killed by SIGKILL, as a worker is whose machine is gone."""
    real = getattr(AdminClient, method)

    async def killed(*args: Any, **options: Any) -> Any:
        if moment == "after":
            await real(*args, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(AdminClient, method, killed)


def run_verb(
    verb: str, arguments: dict[str, Any], kill: str | None, environment: dict[str, str], ended: Connection
) -> None:
    """Run a DAG with one task, and send the run's id, the task's state and what it returned.

    :param kill: ``"before"`` or ``"after"`` the brokers have done it; ``None`` lets it come to its end.
    """
    os.environ.update(environment)
    from airflow import settings

    settings.DAGS_FOLDER = environment["AIRFLOW__CORE__DAGS_FOLDER"]  # read once, before this process was forked
    operator, method = VERBS[verb]
    if kill is not None:
        die_at(method, kill)
    with DAG(dag_id="killed_verb", schedule=None, start_date=datetime(2026, 1, 1), params=arguments) as dag:
        given = {name: f"{{{{ params.{name} | tojson }}}}" for name in arguments}
        given |= {name: f"{{{{ params.{name} }}}}" for name, value in arguments.items() if isinstance(value, str)}
        operator(task_id="change", **given)
    runnable(dag)
    due = datetime(2026, 1, 1, tzinfo=UTC)
    run = dag.test(run_after=due, logical_date=due)  # the same run each time, as of a task that is cleared
    (task,) = run.get_task_instances()
    ended.send((run.run_id, str(task.state), task.xcom_pull(task_ids="change")))
