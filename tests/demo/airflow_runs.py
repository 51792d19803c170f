"""Run DAGs on a real Airflow, one after the other in one process: ``python -m tests.demo.airflow_runs``.

Airflow takes ten seconds to start, as long as a cluster does, so both start at once: this process gets ready first, and
then reads one line of JSON, ``{"environment": {…}, "runs": [{"dag_id", "conf", "wait_seconds"}]}``. The exit code is 1
when a run does not succeed; the runs after it are then not started.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.lab.spark_archive import quick_options

DAGS = Path(__file__).parents[2] / "dags"


def airflow_environment(home: Path) -> dict[str, str]:
    """Return the environment of an Airflow of its own below ``home``."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "KAFKA_GROUPS"))}
    inherited.pop("PYTHONDONTWRITEBYTECODE", None)  # Airflow starts three times as slowly without its byte code
    return inherited | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "SPARK_LOCAL_IP": "127.0.0.1",
        # A short job on little data is over before the optimising compiler has paid for itself.
        "KAFKA_GROUPS_DEFAULTS": json.dumps({"spark_conf": {"spark.driver.extraJavaOptions": quick_options()}}),
    }


def connections(bootstrap: str) -> dict[str, str]:
    """Return the two connections that the DAGs use, as environment variables."""
    kafka = {"conn_type": "kafka_groups", "host": bootstrap}
    spark = {"conn_type": "spark", "host": "local[2]"}
    return {
        "AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT": json.dumps(kafka),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(spark),
    }


def main() -> int:
    """Get ready, take the order, run the DAGs; give the exit code."""
    from airflow.dag_processing.dagbag import DagBag
    from airflow.utils.db import initdb

    initdb()
    bag = DagBag(dag_folder=str(DAGS))
    if bag.import_errors:
        print(f"The DAG files have errors: {bag.import_errors}", file=sys.stderr)
        return 1
    line = sys.stdin.readline()
    if not line:
        return 1  # whoever was to give the order has ended
    order = json.loads(line)
    os.environ |= order["environment"]
    return 0 if all(run_one(bag.dags[run["dag_id"]], run) for run in order["runs"]) else 1


def run_one(dag: Any, run: Mapping[str, Any]) -> bool:
    """Run one DAG; say whether it succeeded."""
    time.sleep(run.get("wait_seconds", 0))
    print(f"[DEMO] run {run['dag_id']}", flush=True)
    finished = dag.test(run_conf=run["conf"])
    print(f"[DEMO] {run['dag_id']} ended: {finished.state}", flush=True)
    return bool(finished.state == "success")


if __name__ == "__main__":
    sys.exit(main())
