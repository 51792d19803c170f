"""Run DAGs on a real Airflow, one after the other in one process: ``python -m tests.demo.airflow_runs <json>``.

The argument is a list of ``{"dag_id", "conf", "wait_seconds"}``. Airflow's settings come from the environment (see
``airflow_environment``). The exit code is 1 when a run does not succeed; the runs after it are then not started.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DAGS = Path(__file__).parents[2] / "dags"


def airflow_environment(home: Path, bootstrap: str) -> dict[str, str]:
    """Give the environment of an Airflow of its own below ``home``, with the two connections that the DAGs use."""
    kafka = {"conn_type": "kafka_groups", "host": bootstrap}
    spark = {"conn_type": "spark", "host": "local[2]"}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "KAFKA_GROUPS"))}
    inherited.pop("PYTHONDONTWRITEBYTECODE", None)  # Airflow starts three times as slowly without its byte code
    return inherited | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT": json.dumps(kafka),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(spark),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def main(runs: list[Mapping[str, Any]]) -> int:
    """Run the DAGs; give the exit code."""
    from airflow.dag_processing.dagbag import DagBag
    from airflow.utils.db import initdb

    initdb()
    bag = DagBag(dag_folder=str(DAGS))
    if bag.import_errors:
        print(f"The DAG files have errors: {bag.import_errors}", file=sys.stderr)
        return 1
    for run in runs:
        time.sleep(run.get("wait_seconds", 0))
        print(f"[DEMO] run {run['dag_id']}", flush=True)
        finished = bag.dags[run["dag_id"]].test(run_conf=run["conf"])
        print(f"[DEMO] {run['dag_id']} ended: {finished.state}", flush=True)
        if finished.state != "success":
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
