"""The shipped DAGs and others, and what became of a run of one."""

import os
from typing import Any

from tests.dags.airflow_env import ROOT


def shipped_dags() -> dict[str, Any]:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.utils.db import initdb

    initdb()
    bag = DagBag(dag_folder=str(ROOT / "dags"))
    assert bag.import_errors == {}
    return dict(bag.dags)


def runnable(*dags: Any) -> None:
    """Let DAGs of a test's own be run."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.utils.db import initdb

    initdb()
    DagBundlesManager().sync_bundles_to_db()  # type: ignore[no-untyped-call]  # Airflow's own
    bag = DagBag(dag_folder=os.devnull)
    for dag in dags:
        bag.bag_dag(dag)
    sync_bag_to_db(bag, "dags-folder", None)


def states(run: Any) -> dict[str, str]:
    return {task.task_id: str(task.state) for task in run.get_task_instances()}


def result(run: Any, task_id: str) -> Any:
    (task,) = [task for task in run.get_task_instances() if task.task_id == task_id]
    return task.xcom_pull(task_ids=task_id)
