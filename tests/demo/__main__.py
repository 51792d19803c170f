"""The whole job on a real cluster: ``python -m tests.demo`` (``make demo``).

Starts three Kafka brokers and fills them with some 300 groups, live and dead; runs the shipped DAGs on a real Airflow
with real Spark jobs (a snapshot, a cleanup as a dry run, a cleanup in earnest); then asks the brokers whether what had
to stay is still there. Exits with 1 when it is not, with 2 when something needed is missing.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from airflow_kafka_groups.maintenance.plan.deletion_plan import load_plan
from airflow_kafka_groups.maintenance.plan.plan_rows import KeptGroup, PlannedGroup
from airflow_kafka_groups.maintenance.storage import Layout
from tests.demo.airflow_runs import airflow_environment, connections
from tests.demo.outcome import Truth, summarise, table, wrongs
from tests.demo.workload import DemoWorkload
from tests.lab.cluster import KafkaCluster
from tests.lab.errors import LabError
from tests.lab.groups import list_groups
from tests.records import records

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "demo"
VERSION = "4.1.0"
MIN_IDLE_SECONDS = 8
_TASK = re.compile(r"\[DAG TEST\] (starting|end task) task_id=(\w+)")
_started = time.monotonic()


def say(text: str) -> None:
    """Print a line with the time since the start."""
    print(f"[{time.monotonic() - _started:6.1f} s] {text}", flush=True)


def runs(store: Path) -> list[dict[str, Any]]:
    """Return the run's configuration: the parameters as typed into the form, without approval of the plan."""
    scope = {"storage_path": str(store), "cluster": "demo"}
    cleanup = {
        **scope,
        "exclude": ["payments-critical-*"],
        "min_idle_seconds": MIN_IDLE_SECONDS,
        "max_share": 0.9,
    }
    return [
        {"dag_id": "snapshot_group_offsets", "conf": scope},
        {"dag_id": "cleanup_stale_groups", "conf": cleanup, "wait_seconds": MIN_IDLE_SECONDS + 1},
        {"dag_id": "cleanup_stale_groups", "conf": {**cleanup, "dry_run": False, "require_approval": False}},
    ]


class AirflowRuns:
    """Run the DAGs in a process of their own, which gets ready while the cluster starts."""

    def __init__(self, folder: Path) -> None:
        home = folder / "airflow"
        home.mkdir(parents=True)
        self._log = folder / "airflow.log"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.demo.airflow_runs"],
            cwd=ROOT,
            env=airflow_environment(home),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, bootstrap: str, store: Path) -> None:
        """Run them all, and show which task is at work.

        Raises LabError with the log's place and end when one fails.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it failed before it got here; its log says why
            self._process.stdin.write(json.dumps({"environment": connections(bootstrap), "runs": runs(store)}) + "\n")
            self._process.stdin.flush()
        with self._log.open("w") as file:
            for line in self._process.stdout:
                file.write(line)
                show_progress(line)
        if self._process.wait() != 0:
            tail = "".join(self._log.read_text().splitlines(keepends=True)[-25:])
            raise LabError(f"A DAG run failed; its log is in {self._log.relative_to(ROOT)}, the end of it:\n{tail}")


def show_progress(line: str) -> None:
    """Turn a line of Airflow's log into a word of progress, where it is worth one."""
    if found := _TASK.search(line):
        if found[1] == "starting":
            say(f"    {found[2]} …")
    elif line.startswith("[DEMO] "):
        say(f"  {line.removeprefix('[DEMO] ').strip()}")


def main() -> int:
    """Run the demo; give the exit code."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    store = FOLDER / "storage"
    store.mkdir(parents=True)
    say(f"Starting Kafka {VERSION} with three brokers, and Airflow …")
    with AirflowRuns(FOLDER) as airflow, KafkaCluster(version=VERSION, brokers=3) as cluster:
        say("Filling it: topics with records, and some 300 groups, most of them dead …")
        with DemoWorkload(cluster) as workload:
            truth = Truth(
                live=workload.live,
                moving=workload.moving,
                stale=workload.stale,
                protected=workload.protected,
                share=workload.share,
            )
            say(f"{len(workload.groups)} groups are there; {len(truth.live)} have members that keep committing.")
            say("Running the DAGs: a snapshot, a cleanup as a dry run (the default), and a cleanup in earnest.")
            airflow.run(cluster.bootstrap, store)
            workload.check()
            left = frozenset(list_groups(cluster.bootstrap))
    return tell(store / "demo", truth, left)


def tell(store: Path, truth: Truth, left: frozenset[str]) -> int:
    """Write the summary, print the table, and hold it against the truth."""
    audit = records(store.parent)[-1]
    plan = load_plan(Layout(store.parent, store.name), audit["plan_id"])
    summary = summarise(plan.to_json(), audit, truth, left)
    (FOLDER / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    shutil.copy(store / "reports" / f"{audit['plan_id']}.html", FOLDER / "report.html")
    print(f"\n{table(summary)}\n\n  some of them, and why:")
    some: list[PlannedGroup | KeptGroup] = [*plan.groups[:3], *{kept.verdict: kept for kept in plan.kept}.values()]
    for group in some:
        print(f"    {group.group_id:<44} {group.reason}")
    print()
    for what, place in {
        "report": FOLDER / "report.html",
        "summary": FOLDER / "summary.json",
        "backup": store / "backups",
        "snapshots": store / "data",
        "log": FOLDER / "airflow.log",
    }.items():
        print(f"  {what:<10} {place.relative_to(ROOT)}")
    found = wrongs(summary, truth)
    for wrong in found:
        print(f"\n  WRONG: {wrong}.", file=sys.stderr)
    if not found:
        say("All is as it must be: what was alive still is, what was dead is gone, and its offsets are backed up.")
    return 1 if found else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        print(f"\n{error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
