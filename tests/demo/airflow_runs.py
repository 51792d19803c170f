"""Run DAGs on a real Airflow, one after the other in one process: ``python -m tests.demo.airflow_runs``.

Airflow takes ten seconds to start, as long as a cluster does, so both start at once: this process gets ready, says
``[DEMO] ready``, and then reads orders, one line of JSON each: ``{"environment": {…}, "dag_id", "conf"}``. After each
it prints ``[DEMO] ended`` and the run's state. It ends with its stdin.
"""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.lab.spark.archive import quick_options

DAGS = Path(__file__).parents[2] / "dags"


def airflow_environment(home: Path, dags: Path = DAGS) -> dict[str, str]:
    """Return the environment of an Airflow of its own below ``home``.

    :param dags: its DAGs folder. Default: the shipped DAGs.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "KAFKA_GROUPS"))}
    inherited.pop("PYTHONDONTWRITEBYTECODE", None)  # Airflow starts three times as slowly without its byte code
    return inherited | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "SPARK_LOCAL_IP": "127.0.0.1",
        # A short job on little data is over before the optimising compiler has paid for itself.
        "KAFKA_GROUPS_DEFAULTS": json.dumps({"spark_conf": {"spark.driver.extraJavaOptions": quick_options()}}),
    }


def connections(bootstrap: str) -> dict[str, str]:
    """Return the two connections that the DAGs use, as environment variables."""
    kafka = {"conn_type": "kafka_groups", "host": bootstrap}
    spark = {"conn_type": "spark", "host": "local[2]"}
    return {"AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT": json.dumps(kafka), "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(spark)}


def main() -> int:
    from airflow.configuration import conf
    from airflow.dag_processing.dagbag import DagBag
    from airflow.utils.db import initdb

    initdb()
    bag = DagBag(dag_folder=conf.get("core", "dags_folder"))
    if bag.import_errors:
        print(f"The DAG files have errors: {bag.import_errors}", file=sys.stderr)
        return 1
    bag.dags["warm_up"].test()
    print("[DEMO] ready", flush=True)
    for line in sys.stdin:
        run_one(bag.dags, json.loads(line))
    return 0


def run_one(dags: Mapping[str, Any], order: Mapping[str, Any]) -> None:
    os.environ |= order["environment"]
    finished = dags[order["dag_id"]].test(run_conf=order["conf"])
    print(f"[DEMO] ended {finished.state}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
