"""What there is to click through: the demo's cluster, kept busy, and an Airflow that knows it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.demo.workload import DemoWorkload
from tests.lab.cluster import KafkaCluster
from tests.lab.spark_archive import quick_options
from tests.ui.airflow_server import ROOT, AirflowServer

FOLDER = ROOT / "build" / "ui"
KAFKA_VERSION = "4.1.0"
KAFKA_USER, KAFKA_PASSWORD = "airflow", "airflow-secret"
MIN_IDLE_SECONDS = 8
DAGS = ("snapshot_group_offsets", "cleanup_stale_groups")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What is running."""

    airflow: AirflowServer
    cluster: KafkaCluster
    workload: DemoWorkload
    storage: Path
    snapshot_run: str


@contextmanager
def ui_scene(home: Path, storage: Path, say: Callable[[str], None] = lambda text: None) -> Iterator[Scene]:
    """Start everything, take the first snapshot, and end everything in the end.

    :param home: Airflow's home; whatever is there is removed.
    :param storage: an empty folder for snapshots, plans, backups and reports.
    :param say: told what is going on.

    Raises LabError when something does not come up.
    """
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    say(f"Starting Airflow, and Kafka {KAFKA_VERSION} with three brokers …")
    cluster = KafkaCluster(version=KAFKA_VERSION, brokers=3, sasl_users={KAFKA_USER: KAFKA_PASSWORD})
    with AirflowServer(home, _environment(storage)) as airflow, cluster:
        say("Filling it: topics with records, and some 300 groups, most of them dead …")
        with DemoWorkload(cluster) as workload:
            airflow.wait_ready(DAGS)
            airflow.connect("kafka_groups_default", {"conn_type": "kafka_groups", "host": cluster.bootstrap})
            airflow.connect("spark_default", {"conn_type": "spark", "host": "local[2]"})
            say("Taking the first snapshot: the history that groups are judged by …")
            first = airflow.run_dag(DAGS[0], {})
            airflow.wait_for_run(DAGS[0], first)
            try:
                yield Scene(airflow=airflow, cluster=cluster, workload=workload, storage=storage, snapshot_run=first)
            finally:
                say("Ending …")


def _environment(storage: Path) -> dict[str, str]:
    defaults: dict[str, Any] = {
        "cluster": "demo",
        "storage_path": str(storage),
        "exclude": ["payments-critical-*"],
        "min_idle_seconds": MIN_IDLE_SECONDS,
        "max_share": 0.9,
        "spark_conf": {"spark.driver.extraJavaOptions": quick_options()},
    }
    return {"KAFKA_GROUPS_DEFAULTS": json.dumps(defaults)}
