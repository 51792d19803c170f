"""Order DAG runs of an Airflow in a process of its own, and wait for them."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from airflow_kafka_groups.hooks.floors import DEFAULTS as ENVIRONMENT
from tests.demo.airflow_runs import airflow_environment
from tests.demo.dag_folder import OWN, write_dags
from tests.lab.errors import LabError
from tests.lab.machine.process import tail
from tests.lab.machine.service import Service
from tests.lab.spark.archive import quick_options

ROOT = Path(__file__).parents[2]
_TASK = re.compile(r"\[DAG TEST\] starting task_id=(\w+)")


def spark_conf() -> dict[str, str]:
    """Return the properties of a Spark job on a few hundred rows: what is for large data costs more than it saves."""
    return {
        "spark.driver.extraJavaOptions": quick_options(),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }


class AirflowOrders(Service):
    """Start Airflow, which gets ready beside the brokers, and run DAGs on it until ``stop()``.

    :param folder: for its home, its DAGs and its log.
    :param say: told which task is at work.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.log = folder / "airflow.log"
        self._home = folder / "airflow"
        self._dags = folder / "dags"
        self._say = say
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> Self:
        """Begin to start, without waiting for it."""
        self._home.mkdir(parents=True)
        write_dags(self._dags)
        shutil.copy(OWN / "warm_up.py", self._dags)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.demo.airflow_runs"],
            cwd=ROOT,
            env=airflow_environment(self._home, self._dags) | {ENVIRONMENT: json.dumps({"spark_conf": spark_conf()})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return self

    def stop(self) -> None:
        """Kill it. May be called twice."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._process = None

    def wait_ready(self) -> None:
        """Wait until it takes orders. Raises LabError with the end of its log when it ends instead."""
        self._read_until("ready")

    def run(self, dag_id: str, environment: Mapping[str, str], conf: Mapping[str, Any]) -> None:
        """Run a DAG to its end. Raises LabError with the end of the log when it does not succeed."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._say(f"  {dag_id}")
        order = {"dag_id": dag_id, "environment": dict(environment), "conf": dict(conf)}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        if (state := self._read_until("ended")) != "success":
            raise LabError(f"The run of {dag_id} ended: {state}. {self._log_tail()}")

    def _read_until(self, word: str) -> str:
        """Copy the output to the log up to the line with a word; return the rest of that line."""
        assert self._process is not None
        assert self._process.stdout is not None
        with self.log.open("a") as file:
            for line in self._process.stdout:
                file.write(line)
                if line.startswith(f"[DEMO] {word}"):
                    return line.removeprefix(f"[DEMO] {word}").strip()
                if task := _TASK.search(line):
                    self._say(f"    {task[1]} …")
        raise LabError(f"Airflow ended with exit code {self._process.wait()}. {self._log_tail()}")

    def _log_tail(self) -> str:
        return f"Its log is in {self.log.relative_to(ROOT)}, the end of it:\n{tail(self.log, 25)}"
