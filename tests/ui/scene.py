"""What there is to click through: the demo's cluster, kept busy, an Airflow that knows it, its policy, a mail server.

The first clean-up has run already: stale groups are marked, and their owners have mail.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.demo.dag_folder import write_dags
from tests.demo.mailbox import Mailbox
from tests.demo.policy import IDLE_SECONDS, NOTICE_SECONDS, write_policy
from tests.demo.workload import DemoWorkload
from tests.lab.cluster import KafkaCluster
from tests.lab.errors import LabError
from tests.lab.groups import list_groups
from tests.lab.spark_archive import quick_options
from tests.ui.airflow_server import ROOT, AirflowServer

FOLDER = ROOT / "build" / "ui"
KAFKA_VERSION = "4.1.0"
KAFKA_USER, KAFKA_PASSWORD = "airflow", "airflow-secret"
MAILS = FOLDER / "mails"
DAGS = ("snapshot_group_offsets", "cleanup_stale_groups", "keep_groups_alive")
_IN_EARNEST = {"dry_run": False, "require_approval": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What is running."""

    airflow: AirflowServer
    cluster: KafkaCluster
    workload: DemoWorkload
    mailbox: Mailbox
    policy: Path
    storage: Path
    snapshot_run: str
    notice_run: str


@contextmanager
def ui_scene(home: Path, storage: Path, say: Callable[[str], None] = lambda text: None) -> Iterator[Scene]:
    """Start everything, take the first snapshot, notify owners, and end everything in the end.

    :param home: Airflow's home; whatever is there is removed.
    :param storage: an empty folder for snapshots, plans, backups and reports.
    :param say: told what is going on.

    Raises LabError when something does not come up.
    """
    shutil.rmtree(home, ignore_errors=True)
    shutil.rmtree(MAILS, ignore_errors=True)
    home.mkdir(parents=True)
    write_dags(home / "dags")
    policy = write_policy(storage / "policy.yaml")
    mailbox = Mailbox(MAILS)
    say(f"Starting Airflow, and Kafka {KAFKA_VERSION} with three brokers …")
    cluster = KafkaCluster(version=KAFKA_VERSION, brokers=3, sasl_users={KAFKA_USER: KAFKA_PASSWORD})
    with mailbox, AirflowServer(home, _environment(storage, policy, home / "dags")) as airflow, cluster:
        say("Filling it: topics with records, and some 300 groups, most of them dead …")
        with DemoWorkload(cluster) as workload:
            airflow.wait_ready(DAGS)
            airflow.connect("kafka_groups_default", {"conn_type": "kafka_groups", "host": cluster.bootstrap})
            airflow.connect("spark_default", {"conn_type": "spark", "host": "local[2]"})
            mail = mailbox.connection
            airflow.connect("smtp_default", {**mail, "extra": json.dumps(mail["extra"])})
            say("Taking the first snapshot: the history that groups are judged by …")
            first = airflow.run_dag(DAGS[0], {})
            airflow.wait_for_run(DAGS[0], first)
            time.sleep(IDLE_SECONDS)
            say("Running the first clean-up by the policy: it marks stale groups, and mails their owners …")
            notice = airflow.run_dag(DAGS[1], _IN_EARNEST)
            airflow.wait_for_run(DAGS[1], notice)
            if gone := workload.stale - list_groups(cluster.bootstrap).keys():
                raise LabError(f"{len(gone)} groups are gone without a notice, first {min(gone)!r}.")
            time.sleep(NOTICE_SECONDS)
            airflow.request("PATCH", f"/dags/{DAGS[2]}", {"is_paused": False})
            try:
                yield Scene(
                    airflow=airflow,
                    cluster=cluster,
                    workload=workload,
                    mailbox=mailbox,
                    policy=policy,
                    storage=storage,
                    snapshot_run=first,
                    notice_run=notice,
                )
            finally:
                say("Ending …")


def _environment(storage: Path, policy: Path, dags: Path) -> dict[str, str]:
    defaults: dict[str, Any] = {
        "cluster": "demo",
        "storage_path": str(storage),
        "policy_file": str(policy),
        "max_share": 0.9,
        "spark_conf": {"spark.driver.extraJavaOptions": quick_options()},
    }
    return {"KAFKA_GROUPS_DEFAULTS": json.dumps(defaults), "AIRFLOW__CORE__DAGS_FOLDER": str(dags)}
