"""The shipped DAGs and others, what they work on, and what became of a run of one."""

import json
import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.dags.airflow_env import ROOT
from tests.lab.workload.topics import create_topics, produce

DAGS = ROOT / "dags"


def parsed(place: Path) -> dict[str, Any]:
    """Return the DAGs of a file or a folder."""
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(place), collect_dags=True)
    assert bag.import_errors == {}
    return dict(bag.dags)


def shipped_dags() -> dict[str, Any]:
    from airflow.utils.db import initdb

    initdb()
    return parsed(DAGS)


def connect(
    monkeypatch: pytest.MonkeyPatch, servers: str, conn_id: str = "kafka_groups_default", **fields: Any
) -> None:
    """Let a connection lead to a cluster."""
    connection = {"conn_type": "kafka_groups", "host": servers, **fields}
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(connection))


def new_topic(bootstrap: str, begin: str) -> str:
    """Create a topic of a name that no other test has: two partitions of twenty records."""
    topic = f"{begin}-{uuid4().hex[:8]}"
    create_topics(bootstrap, {topic: 2})
    produce(bootstrap, {(topic, 0): 20, (topic, 1): 20})
    return topic


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
