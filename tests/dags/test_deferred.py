"""Sensors that wait in the triggerer, on a real Airflow and a real Kafka."""

import json
import os
import threading
from datetime import datetime
from typing import Any

import pytest

from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import commit_offsets, seed_groups
from tests.lab.workload.topics import create_topics, produce

pytestmark = pytest.mark.airflow
TOPIC, GROUP = "deferral-topic", "deferral.reader"  # no prefix of another test: the cluster is shared


def runnable(dag: Any) -> Any:
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.utils.db import initdb

    initdb()
    DagBundlesManager().sync_bundles_to_db()  # type: ignore[no-untyped-call]  # Airflow's own
    bag = DagBag(dag_folder=os.devnull)
    bag.bag_dag(dag)
    sync_bag_to_db(bag, "dags-folder", None)
    return dag


def test_a_deferred_sensor_ends_when_the_group_has_read_to_the_end(
    kafka41: KafkaCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from airflow.sdk import DAG

    from airflow_kafka_groups.sensors.offsets import ListGroupOffsetsSensor
    from airflow_kafka_groups.triggers.clients import _clients

    bootstrap = kafka41.bootstrap
    create_topics(bootstrap, {TOPIC: 1})
    produce(bootstrap, {(TOPIC, 0): 10})
    seed_groups(bootstrap, [GROUP], {(TOPIC, 0): 3})
    connection = {"conn_type": "kafka_groups", "host": bootstrap, "extra": {"protected_groups": ["x"]}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", json.dumps(connection))
    with DAG(dag_id="deferred", schedule=None, start_date=datetime(2026, 1, 1)) as dag:
        ListGroupOffsetsSensor(
            task_id="to_end", group_ids=[GROUP], to_end=True, deferrable=True, poke_interval=1, timeout=120
        )
        ListGroupOffsetsSensor(
            task_id="never",
            targets={GROUP: {TOPIC: {0: 1000}}},
            deferrable=True,
            poke_interval=1,
            timeout=6,
            soft_fail=True,
        )
    reader = threading.Timer(4, commit_offsets, (bootstrap, {GROUP: {(TOPIC, 0): 10}}))
    reader.start()
    run = runnable(dag).test()
    reader.join()
    assert {task.task_id: str(task.state) for task in run.get_task_instances()} == {
        "to_end": "success",
        "never": "skipped",
    }
    assert run.state == "success"
    assert not any(_clients.values()), "all clients are closed"
