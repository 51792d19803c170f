"""Sensors that wait in the triggerer, on a real Airflow and a real Kafka."""

import threading
from datetime import datetime

import pytest

from tests.dags.runs import connect, runnable, states
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import commit_offsets, seed_groups
from tests.lab.workload.topics import create_topics, produce

pytestmark = pytest.mark.airflow
TOPIC, GROUP = "deferral-topic", "deferral.reader"  # no prefix of another test: the cluster is shared


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
    connect(monkeypatch, bootstrap, extra={"protected_groups": ["x"]})
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
    runnable(dag)
    run = dag.test()
    reader.join()
    assert states(run) == {"to_end": "success", "never": "skipped"}
    assert run.state == "success"
    assert not any(_clients.values()), "all clients are closed"
