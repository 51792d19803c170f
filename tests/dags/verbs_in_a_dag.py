"""A DAG of the verbs that change groups, run in this process, which may be killed as soon as the brokers did one.

``python -m tests.dags.verbs_in_a_dag METHOD``: the method of ``AdminClient`` after which the process kills itself.
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import UTC, datetime
from typing import Any

from tests.dags.airflow_env import prepare_airflow

prepare_airflow()

from airflow.sdk import DAG  # noqa: E402

from airflow_kafka_groups.kafka import AdminClient  # noqa: E402
from airflow_kafka_groups.operators.groups import RemoveMembersOperator  # noqa: E402
from airflow_kafka_groups.operators.offset_changes import (  # noqa: E402
    DeleteGroupOffsetsOperator,
    ResetGroupOffsetsOperator,
)

STORED: dict[str, Any] = {"kafka_groups_conn_id": "lab", "storage_path": os.environ["VERBS_STORAGE"], "cluster": "prod"}
GROUP, TOPIC = os.environ["VERBS_GROUP"], os.environ["VERBS_TOPIC"]

with DAG(dag_id="verbs", schedule=None, start_date=datetime(2026, 1, 1), catchup=False) as dag:
    leave = RemoveMembersOperator(
        task_id="leave", group_id=f"{GROUP}.static", instance_ids=["{{ 'pod' }}-1"], retries=0, **STORED
    )
    shift = ResetGroupOffsetsOperator(task_id="shift", group_ids=[f"{GROUP}.a"], shift_by=2, retries=0, **STORED)
    back = ResetGroupOffsetsOperator(
        task_id="back", from_file=os.environ["VERBS_STORAGE"] + "/plan.csv", retries=0, **STORED
    )
    forget = DeleteGroupOffsetsOperator(task_id="forget", group_ids=[f"{GROUP}.c"], topics=[TOPIC], retries=0, **STORED)
    leave >> shift >> back >> forget


def die_after(method: str) -> None:
    """Kill this process as soon as the brokers have done what a method asks for."""
    real = getattr(AdminClient, method)

    async def done(*args: Any, **options: Any) -> Any:
        await real(*args, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(AdminClient, method, done)


def run() -> str:
    """Run the DAG, as the run of one moment: again means again."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.utils.db import initdb

    initdb()
    DagBundlesManager().sync_bundles_to_db()  # type: ignore[no-untyped-call]  # Airflow's own
    bag = DagBag(dag_folder=os.devnull)
    bag.bag_dag(dag)
    sync_bag_to_db(bag, "dags-folder", None)
    return str(bag.dags["verbs"].test(logical_date=datetime(2026, 11, 1, tzinfo=UTC)).state)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        die_after(name)
    sys.exit(run() != "success")
