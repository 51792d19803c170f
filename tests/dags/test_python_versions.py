"""Shipped DAGs on every promised version of Python that is installed: a snapshot, and a backup that is restored.

They need no Spark and one broker, so that each version's lane can run them.
"""

import json
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader, latest_manifest
from airflow_kafka_groups.storage.layout import Layout
from tests.dags.airflow_env import ROOT
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import list_groups, seed_groups
from tests.lab.workload.topics import create_topics, produce

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(900)]


def dag(name: str) -> Any:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(ROOT / "dags" / f"{name}.py"), collect_dags=True)
    assert bag.import_errors == {}
    return bag.dags[name]


def results(run: Any) -> dict[str, Any]:
    tasks = run.get_task_instances()
    assert run.state == "success", {task.task_id: str(task.state) for task in tasks}
    return {task.task_id: task.xcom_pull(task_ids=task.task_id) for task in tasks}


def test_groups_are_snapshot_backed_up_and_restored(
    kafka44: KafkaCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from airflow.utils.db import initdb

    initdb()
    connection = {"conn_type": "kafka_groups", "host": kafka44.bootstrap}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", json.dumps(connection))
    topic = f"python-{sys.version_info.major}-{sys.version_info.minor}-{uuid4().hex[:8]}"
    groups = [f"{topic}.{number}" for number in range(5)]
    create_topics(kafka44.bootstrap, {topic: 2})
    produce(kafka44.bootstrap, {(topic, 0): 20, (topic, 1): 20})
    seed_groups(kafka44.bootstrap, groups, {(topic, 0): 19, (topic, 1): 20})
    storage = {"storage_path": str(tmp_path), "cluster": "lab"}

    results(dag("snapshot_group_offsets").test(run_conf=storage))
    layout = Layout(tmp_path, "lab")
    found = {group.group_id for group in SnapshotReader(layout, latest_manifest(layout).snapshot_id).summaries()}
    assert set(groups) <= found

    run = dag("backup_and_restore_drill").test(run_conf={**storage, "include": [f"{topic}.*"]})
    drill = results(run)["drill"]
    assert (drill["restored"], drill["partitions"], drill["failed"], drill["left"]) == (5, 10, {}, {})
    assert set(groups) <= set(list_groups(kafka44.bootstrap))
