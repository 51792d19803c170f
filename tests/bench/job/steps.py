"""Start the steps, one process after the other, and keep what each took."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.toolchains import REPOSITORY
from tests.demo.airflow_runs import airflow_environment, connections
from tests.lab.errors import LabError

TIMEOUT_S = 1800.0


@dataclass(frozen=True, slots=True)
class Taken:
    """What a step took.

    :param cpu_seconds: processor time; ``None`` where it is not known.
    :param before_mb: peak memory of a task's process before the operator ran: Airflow itself.
    """

    seconds: float
    cpu_seconds: float | None
    peak_mb: float
    before_mb: float | None = None


@dataclass(slots=True)
class Steps:
    """Run steps against one cluster.

    :param bootstrap: the cluster.
    :param folder: for Airflow's home and logs.
    :param say: shows progress.
    """

    bootstrap: str
    folder: Path
    say: Callable[[str], None]
    taken: dict[str, Taken] = field(default_factory=dict)

    def task(self, name: str, operator: str, **arguments: Any) -> Any:
        """Run an operator in a process of its own; return what it returned."""
        return self._run(name, {"operator": operator, "arguments": arguments}).get("returned")

    def core(self, name: str, groups: int) -> None:
        """Make a call of the core in a process of its own (see ``core.CALLS``)."""
        self._run(name, {"bootstrap": self.bootstrap, "groups": groups})

    def page(self, storage: Path, cluster: str) -> None:
        """Show the groups of a cluster in a process of its own (see ``tests.bench.job.step``)."""
        self._run("page", {"storage": str(storage), "cluster": cluster})

    def _run(self, name: str, order: dict[str, Any]) -> dict[str, Any]:
        done = self.run(name, {"name": name, **order})
        seconds, cpu = done["taken"]
        self.note(name, Taken(seconds, cpu, done["peak_mb"], done.get("before_mb")))
        return done

    def run(self, name: str, order: dict[str, Any]) -> dict[str, Any]:
        """Run a step in a process of its own."""
        home = self.folder / "airflow"
        home.mkdir(parents=True, exist_ok=True)
        log = self.folder / f"{name}.log"
        with log.open("w") as errors:
            done = subprocess.run(
                [sys.executable, "-m", "tests.bench.job.step"],
                input=json.dumps(order) + "\n",
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=REPOSITORY,
                env=airflow_environment(home) | connections(self.bootstrap),
                timeout=TIMEOUT_S,
                check=False,
            )
        if done.returncode != 0:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise LabError(f"The step {name} failed; its log is {log}, the end of it:\n{tail}")
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def note(self, name: str, taken: Taken) -> None:
        self.taken[name] = taken
        cpu = "" if taken.cpu_seconds is None else f", processor {taken.cpu_seconds:6.2f} s"
        self.say(f"    {name:12} {taken.seconds:7.2f} s{cpu}, {taken.peak_mb:5.0f} MB")
