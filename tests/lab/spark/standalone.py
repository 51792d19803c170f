"""A real Spark cluster of processes: a master, a worker, and executors that share nothing with the driver but the disk.

::

    with SparkCluster() as cluster:
        done = cluster.submit("app.py", "--argument", py_files=[bundle])

Driver and executors run a Python of their own (``bare_python``) that has pyarrow and numpy and nothing of this project:
what a job needs has to be shipped, as on a cluster of many machines.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.lab.errors import LabError
from tests.lab.machine.java import find_java
from tests.lab.machine.ports import HOST, free_ports
from tests.lab.machine.process import Programs
from tests.lab.machine.service import Service
from tests.lab.spark.archive import quick_options

START_TIMEOUT_S = 120.0
SUBMIT_TIMEOUT_S = 240.0
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
ARROW = ("pyarrow", "numpy", "numpy.libs")
PANDAS = (*ARROW, "pandas", "pandas.libs", "dateutil", "pytz", "tzdata", "six.py")
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "WARN",
    "spark.driver.memory": "512m",
    "spark.driver.host": HOST,
    "spark.executor.memory": "512m",
    "spark.executor.cores": "2",
    "spark.sql.shuffle.partitions": "2",
}


def spark_home() -> Path:
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise LabError("There is no pyspark: run `make setup`.")
    return Path(found.origin).parent


def bare_python(folder: Path, packages: Sequence[str] = PANDAS) -> Path:
    """Make a Python that has these packages and no other; Spark brings pyspark along by itself.

    :param folder: where to; must not exist yet.
    :param packages: what is taken over from the Python that runs this, by the names in its ``site-packages``.
    """
    base = getattr(sys, "_base_executable", sys.executable)
    subprocess.run([base, "-m", "venv", "--without-pip", str(folder)], check=True, capture_output=True)
    (place,) = folder.glob("lib/python*/site-packages")
    for name in packages:
        sources = (Path(there, name) for there in sys.path)  # another Spark is in a folder of its own
        if source := next(filter(Path.exists, sources), None):  # some wheels keep their libraries inside
            (place / name).symlink_to(source)
    return folder / "bin" / "python"


class SparkCluster(Service):
    """Run a standalone master and one worker until ``stop()`` or the end of the ``with`` block.

    :param cores: of the worker.
    :param memory_mb: of the worker, for its executors.

    Raises LabError, with the log's tail, when the cluster does not come up.
    """

    def __init__(self, *, cores: int = 2, memory_mb: int = 1024) -> None:
        self._cores = cores
        self._memory_mb = memory_mb
        self._programs = Programs("spark")
        self.folder = self._programs.folder
        """Where logs, executors and the bare Python are."""
        self.master = ""
        """What ``--master`` takes."""
        self.python = Path()
        """The Python of driver and executors."""

    def start(self) -> Self:
        """Start master and worker, and wait until they know each other."""
        self.python = bare_python(self.folder / "python")
        self._start_daemons()
        return self

    def stop(self) -> None:
        """Kill everything and remove the folder. May be called twice."""
        for process in reversed(self._programs.processes):
            process.terminate()  # a worker that is asked to end kills its executors
        self._programs.stop()

    def submit(
        self,
        application: Path | str,
        *arguments: str,
        settings: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
        python: Path | str | None = None,
        mode: str = "client",
        timeout: float = SUBMIT_TIMEOUT_S,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program by spark-submit, from an empty folder and in an environment without this project.

        :param settings: of Spark (``--conf``), beside the lab's own.
        :param options: further options of spark-submit, such as ``--py-files``.
        :param python: of driver and executors, default ``bare_python``.
        :param mode: ``client`` or ``cluster``, which a standalone cluster has not for Python.
        """
        chosen = {**self._settings(), **(settings or {})}
        for name in ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"):
            chosen[name] = f"{quick_options()} {chosen.get(name, '')}".strip()
        confs = [part for name, value in chosen.items() for part in ("--conf", f"{name}={value}")]
        command = [
            str(spark_home() / "bin" / "spark-submit"),
            "--master",
            self.master,
            "--deploy-mode",
            mode,
            *confs,
            *options,
        ]
        with tempfile.TemporaryDirectory(dir=self.folder) as empty:
            return subprocess.run(
                [*command, str(application), *arguments],
                cwd=empty,
                env={**self._environment(), "PYSPARK_PYTHON": str(python or self.python)},
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )

    def _start_daemons(self) -> None:
        port, page, worker_port, worker_page = free_ports(4)
        self.master = f"spark://{HOST}:{port}"
        self._run_daemon("master", _MASTER, port, page)
        size = ("--cores", self._cores, "--memory", f"{self._memory_mb}m", "--work-dir", self.folder / "work")
        self._run_daemon("worker", _WORKER, worker_port, worker_page, *size, self.master)
        self._wait(f"http://{HOST}:{page}/json/", lambda said: int(said["aliveworkers"]) > 0)

    def _settings(self) -> dict[str, str]:
        """Return the settings of Spark that every program is submitted with."""
        return dict(_SETTINGS)

    def _environment(self) -> dict[str, str]:
        """Return the environment of a machine that knows Spark and Java and nothing of this project."""
        kept = {name: os.environ[name] for name in ("HOME", "JAVA_HOME", "LANG", "TMPDIR") if name in os.environ}
        return {
            **kept,
            "PATH": f"{Path(find_java()).parent}:/usr/local/bin:/usr/bin:/bin",
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": quick_options(),
        }

    def _run_daemon(self, name: str, main_class: str, port: int, page: int, *arguments: object) -> None:
        where = ("--host", HOST, "--port", port, "--webui-port", page)
        self._run(name, spark_home() / "bin" / "spark-class", main_class, *where, *arguments)

    def _run(self, name: str, *command: object) -> None:
        environment = [f"{key}={value}" for key, value in self._environment().items()]
        self._programs.start(name, ["/usr/bin/env", "-i", *environment, *map(str, command)])

    def _wait(self, page: str, is_ready: Callable[[dict[str, Any]], bool]) -> None:
        for process in reversed(self._programs.processes):  # a worker that ends says why
            process.wait_until(lambda: _says(page, is_ready), START_TIMEOUT_S)


def _says(page: str, is_ready: Callable[[dict[str, Any]], bool]) -> bool:
    try:
        with urllib.request.urlopen(page, timeout=2) as answer:
            return is_ready(json.load(answer))
    except (OSError, ValueError, KeyError):
        return False
