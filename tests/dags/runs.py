"""The shipped DAGs, and what became of a run of one."""

from typing import Any

from tests.dags.airflow_env import ROOT


def shipped_dags() -> dict[str, Any]:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.utils.db import initdb

    initdb()
    bag = DagBag(dag_folder=str(ROOT / "dags"))
    assert bag.import_errors == {}
    return dict(bag.dags)


def states(run: Any) -> dict[str, str]:
    return {task.task_id: str(task.state) for task in run.get_task_instances()}


def result(run: Any, task_id: str) -> Any:
    (task,) = [task for task in run.get_task_instances() if task.task_id == task_id]
    return task.xcom_pull(task_ids=task_id)
