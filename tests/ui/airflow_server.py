"""A whole Airflow on a loopback port: API server, scheduler, DAG processor and triggerer, with a home of its own."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import httpx

from tests.demo.airflow_runs import airflow_environment
from tests.lab.errors import LabError
from tests.lab.machine.ports import HOST, free_ports
from tests.lab.machine.process import tail
from tests.lab.machine.service import Service

ROOT = Path(__file__).parents[2]
USERS = {"admin": "admin", "viewer": "viewer"}
"""Names, which are their roles and passwords too: this Airflow can be reached from this machine only."""

START_TIMEOUT_S = 420.0
RUN_TIMEOUT_S = 600.0
_STOP_TIMEOUT_S = 40.0
_POLL_S, _RUN_POLL_S = 0.5, 1.0


class AirflowServer(Service):
    """Run ``airflow standalone`` until ``stop()`` or the end of the ``with`` block.

    :param home: an empty folder for its database, configuration and logs.
    :param environment: what it is to have in its environment, connections for example.
    """

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        self.home = home
        self.port, worker_log, trigger_log = free_ports(3)
        self.url = f"http://{HOST}:{self.port}"
        passwords = home / "passwords.json"
        self._environment = {
            **airflow_environment(home),
            "AIRFLOW__API__HOST": HOST,
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__CORE__PARALLELISM": "2",
            "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
            # A file that changes is parsed at once all the same; the others take a process each, every half minute.
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{name}" for name in USERS),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
            # The server's first answer takes long on a busy machine: by default, a task fails that waits five seconds.
            "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "120",
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(worker_log),
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(trigger_log),
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "PYTHONPATH": str(ROOT),
            "PATH": f"{Path(sys.executable).parent}:{airflow_environment(home).get('PATH', '')}",
            **environment,
        }
        self._log = home / "standalone.log"
        self._passwords = passwords
        self._process: subprocess.Popen[bytes] | None = None
        self._client = httpx.Client(base_url=self.url, timeout=30)

    def start(self) -> Self:
        """Begin to start, without waiting for it."""
        self._passwords.write_text(json.dumps(USERS))
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.ui.airflow_process"],
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self

    def stop(self) -> None:
        """Stop everything; may be called twice."""
        self._client.close()
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def wait_ready(self, dag_ids: tuple[str, ...]) -> None:
        """Wait until all parts are at work and know these DAGs; raises LabError when that takes too long."""
        self.until(self._is_healthy, "was not ready")
        self._client.headers["Authorization"] = f"Bearer {self._token()}"
        self.until(lambda: all(self._knows(dag_id) for dag_id in dag_ids), "did not find the DAGs")

    def connect(self, conn_id: str, connection: Mapping[str, Any]) -> None:
        self.request("POST", "/connections", {"connection_id": conn_id, **connection})

    def unpause(self, dag_id: str) -> None:
        self.request("PATCH", f"/dags/{dag_id}", {"is_paused": False})

    def scheduled_run(self, dag_id: str) -> str:
        """Unpause a DAG whose schedule then begins with a run, and give that run's id."""
        self.unpause(dag_id)
        self.until(lambda: bool(self._runs(dag_id)), f"began no run of {dag_id}")
        return str(self._runs(dag_id)[0]["dag_run_id"])

    def run_dag(self, dag_id: str, conf: Mapping[str, Any]) -> str:
        self.unpause(dag_id)
        run = self.request("POST", f"/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": dict(conf)})
        return str(run["dag_run_id"])

    def wait_for_run(self, dag_id: str, run_id: str, state: str = "success") -> None:
        """Wait until a run has ended in a state, success or failed; raises LabError when it ends in the other one."""
        self._wait_for_state(f"/dags/{dag_id}/dagRuns/{run_id}", ("success", "failed"), state)

    def wait_for_question(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Wait until a task of a run asks somebody; raises LabError when it ends without."""
        asking = "awaiting_input"
        ended = (asking, "success", "failed", "skipped", "upstream_failed")
        self._wait_for_state(f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}", ended, asking)
        # Airflow 3.3 fails a task that is answered before its scheduler knows that the process which asked has ended.
        task = f"TaskInstanceKey(dag_id={dag_id!r}, task_id={task_id!r}, run_id={run_id!r}, "
        known = f"Received executor event with state success for task instance {task}"
        self.until(lambda: known in self._log.read_text(errors="replace"), f"did not log: {known}", RUN_TIMEOUT_S)

    def _wait_for_state(self, place: str, ends: tuple[str, ...], wanted: str) -> None:
        found = ""

        def has_ended() -> bool:
            nonlocal found
            found = self.request("GET", place)["state"]
            return found in ends

        self.until(has_ended, f"did not finish {place}", RUN_TIMEOUT_S, _RUN_POLL_S)
        if found != wanted:
            raise LabError(f"{place} is {found} instead of {wanted}; its logs are in {self.home / 'logs'}.")

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Ask Airflow's public API; raises LabError when it refuses."""
        answer = self._client.request(method, f"/api/v2{path}", json=body)
        if answer.is_error:
            raise LabError(f"{method} {path}: {answer.status_code} {answer.text[:500]}")
        content: dict[str, Any] = answer.json()
        return content

    def until(
        self, is_so: Callable[[], bool], otherwise: str, timeout: float = START_TIMEOUT_S, poll_s: float = _POLL_S
    ) -> None:
        """Wait for something; raises LabError with the end of the log when it does not come."""
        deadline = time.monotonic() + timeout
        while not self._try(is_so):
            if self._process is None or self._process.poll() is not None:
                raise LabError(f"Airflow ended by itself. It logged:\n{tail(self._log, 40)}")
            if time.monotonic() > deadline:
                raise LabError(f"Airflow {otherwise} within {timeout:g} s. It logged:\n{tail(self._log, 40)}")
            time.sleep(poll_s)

    @staticmethod
    def _try(is_so: Callable[[], bool]) -> bool:
        try:
            return is_so()
        except httpx.TransportError:
            return False

    def _is_healthy(self) -> bool:
        health = self.request("GET", "/monitor/health")
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        return all((health.get(part) or {}).get("status") == "healthy" for part in parts)

    def _runs(self, dag_id: str) -> list[dict[str, Any]]:
        return list(self.request("GET", f"/dags/{dag_id}/dagRuns")["dag_runs"])

    def _knows(self, dag_id: str) -> bool:
        return self._client.get(f"/api/v2/dags/{dag_id}").is_success

    def _token(self) -> str:
        login = {"username": "admin", "password": USERS["admin"]}
        answer = self._client.post("/auth/token", json=login)
        answer.raise_for_status()
        return str(answer.json()["access_token"])
