"""Shipped DAGs on every promised version of Python that is installed: a snapshot, and a backup that is restored.

They need no Spark and one broker, so that each version's lane can run them.
"""

import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader, latest_manifest
from airflow_kafka_groups.storage.layout import Layout
from tests.dags.runs import connect, new_topic, shipped_dags
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import list_groups, seed_groups

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(900)]


def results(run: Any) -> dict[str, Any]:
    tasks = run.get_task_instances()
    assert run.state == "success", {task.task_id: str(task.state) for task in tasks}
    return {task.task_id: task.xcom_pull(task_ids=task.task_id) for task in tasks}


def test_groups_are_snapshot_backed_up_and_restored(
    kafka44: KafkaCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    dags = shipped_dags()
    connect(monkeypatch, kafka44.bootstrap)
    topic = new_topic(kafka44.bootstrap, f"python-{sys.version_info.major}-{sys.version_info.minor}")
    groups = [f"{topic}.{number}" for number in range(5)]
    seed_groups(kafka44.bootstrap, groups, {(topic, 0): 19, (topic, 1): 20})
    storage = {"storage_path": str(tmp_path), "cluster": "lab"}

    results(dags["snapshot_group_offsets"].test(run_conf=storage))
    layout = Layout(tmp_path, "lab")
    found = {group.group_id for group in SnapshotReader(layout, latest_manifest(layout).snapshot_id).summaries()}
    assert set(groups) <= found

    run = dags["backup_and_restore_drill"].test(run_conf={**storage, "include": [f"{topic}.*"]})
    drill = results(run)["drill"]
    assert (drill["restored"], drill["partitions"], drill["failed"], drill["left"]) == (5, 10, {}, {})
    assert set(groups) <= set(list_groups(kafka44.bootstrap))
