"""What there is to click through: the demo's cluster, kept busy, two more, an Airflow, a policy, a mail server.

The first snapshot was taken and the first clean-up has run already: stale groups are marked, and owners have mail.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_kafka_groups.storage.paths import MANIFESTS
from tests.demo.airflow_orders import spark_conf
from tests.demo.dag_folder import write_dags
from tests.demo.mailbox import Mailbox
from tests.demo.policy import IDLE_SECONDS, NOTICE_SECONDS, write_policy
from tests.demo.workload import DemoWorkload
from tests.lab.cluster import KafkaCluster
from tests.lab.errors import LabError
from tests.lab.fixtures import OFFSETS_PARTITIONS
from tests.lab.workload.groups import list_groups
from tests.ui import fleet
from tests.ui.airflow_server import ROOT, AirflowServer

FOLDER = ROOT / "build" / "ui"
KAFKA_VERSION = "4.1.0"
KAFKA_USER, KAFKA_PASSWORD = "airflow", "airflow-secret"
MAILS = FOLDER / "mails"
CLEANUP = "cleanup_stale_groups"
SNAPSHOT_FLEET, CLEANUP_FLEET = fleet.DAGS
BY_HAND = ("keep_sleepers_alive", "prune_abandoned_topics", CLEANUP_FLEET)
"""DAGs that run when somebody triggers them."""
_IN_EARNEST = {"dry_run": False, "require_approval": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What is running."""

    airflow: AirflowServer
    cluster: KafkaCluster
    staging: fleet.Staging
    workload: DemoWorkload
    mailbox: Mailbox
    policy: Path
    storage: Path
    snapshot_run: str
    notice_run: str


@contextmanager
def ui_scene(
    home: Path, storage: Path, say: Callable[[str], None] = lambda text: None, *, refresh_s: int = 3
) -> Iterator[Scene]:
    """Start everything, take the first snapshot, notify owners, and end everything in the end.

    :param home: Airflow's home; whatever is there is removed.
    :param storage: an empty folder for snapshots, plans, backups and reports.
    :param say: told what is going on.
    :param refresh_s: seconds after which an open page asks Airflow for news.

    Raises LabError when something does not come up.
    """
    shutil.rmtree(home, ignore_errors=True)
    shutil.rmtree(MAILS, ignore_errors=True)
    home.mkdir(parents=True)
    write_dags(home / "dags")
    fleet.with_quick_retries(home / "dags")
    policy = write_policy(storage / "policy.yaml")
    fleet.name_clusters(policy)
    mailbox, staging = Mailbox(MAILS), fleet.Staging(KAFKA_VERSION)
    environment = _environment(storage, policy, home / "dags", refresh_s)
    say(f"Starting Airflow, Kafka {KAFKA_VERSION} with three brokers, and a small cluster with one …")
    few = {"offsets.topic.num.partitions": OFFSETS_PARTITIONS}
    cluster = KafkaCluster(version=KAFKA_VERSION, brokers=3, config=few, sasl_users={KAFKA_USER: KAFKA_PASSWORD})
    with mailbox, AirflowServer(home, environment) as airflow, cluster, staging:
        say("Filling it: topics with records, and some 300 groups, most of them dead …")
        # The brokers work on each round for a quarter of a second; what moves does so twice in the idle time.
        with DemoWorkload(cluster, tick_s=IDLE_SECONDS / 2) as workload:
            airflow.wait_ready((CLEANUP, SNAPSHOT_FLEET, *BY_HAND))
            airflow.connect("kafka_groups_default", {"conn_type": "kafka_groups", "host": cluster.bootstrap})
            for conn_id, connection in staging.connections.items():
                airflow.connect(conn_id, connection)
            airflow.connect("spark_default", {"conn_type": "spark", "host": "local[2]"})
            mail = mailbox.connection
            airflow.connect("smtp_default", {**mail, "extra": json.dumps(mail["extra"])})
            say("Taking the first snapshot of each cluster: the history that groups are judged by …")
            first = airflow.scheduled_run(SNAPSHOT_FLEET)
            # One cluster is down, and does not hold the others up.
            airflow.wait_for_run(SNAPSHOT_FLEET, first, "failed")
            if missing := [name for name in ("demo", fleet.STAGING) if not (storage / name / MANIFESTS).is_dir()]:
                raise LabError(f"No snapshot was taken of {', '.join(missing)}; the logs are in {home / 'logs'}.")
            time.sleep(IDLE_SECONDS)
            say("Running the first clean-up by the policy: it marks stale groups, and mails their owners …")
            notice = airflow.run_dag(CLEANUP, _IN_EARNEST)
            airflow.wait_for_run(CLEANUP, notice)
            if gone := workload.stale - list_groups(cluster.bootstrap).keys():
                raise LabError(f"{len(gone)} groups are gone without a notice, first {min(gone)!r}.")
            time.sleep(NOTICE_SECONDS)
            for dag_id in BY_HAND:
                airflow.unpause(dag_id)
            try:
                yield Scene(
                    airflow=airflow,
                    cluster=cluster,
                    staging=staging,
                    workload=workload,
                    mailbox=mailbox,
                    policy=policy,
                    storage=storage,
                    snapshot_run=first,
                    notice_run=notice,
                )
            finally:
                say("Ending …")


def _environment(storage: Path, policy: Path, dags: Path, refresh_s: int) -> dict[str, str]:
    defaults: dict[str, Any] = {
        "cluster": "demo",
        "storage_path": str(storage),
        "policy_file": str(policy),
        "max_share": 0.9,
        "spark_conf": spark_conf(),
    }
    return {
        "KAFKA_GROUPS_DEFAULTS": json.dumps(defaults),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__API__AUTO_REFRESH_INTERVAL": str(refresh_s),
    }
