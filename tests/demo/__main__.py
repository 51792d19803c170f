"""The whole job on a real cluster: ``python -m tests.demo`` (``make demo``).

Starts three Kafka brokers and fills them with some 300 groups, live and dead; runs the shipped DAGs on a real Airflow
with real Spark jobs (a snapshot, a cleanup as a dry run, a cleanup in earnest); then asks the brokers whether what had
to stay is still there. Exits with 1 when it is not, with 2 when something needed is missing.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.demo.airflow_runs import airflow_environment
from tests.demo.outcome import Truth, summarise, table, wrongs
from tests.demo.workload import DemoWorkload
from tests.lab.cluster import KafkaCluster
from tests.lab.errors import LabError
from tests.lab.groups import list_groups

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
    """Say what is run: the same parameters a user would type into the form."""
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
        {"dag_id": "cleanup_stale_groups", "conf": {**cleanup, "dry_run": False}},
    ]


def run_dags(bootstrap: str, store: Path) -> None:
    """Run the DAGs in a process of their own, and show which task is at work.

    Raises LabError with the log's place when one fails.
    """
    log = FOLDER / "airflow.log"
    home = FOLDER / "airflow"
    command = [sys.executable, "-m", "tests.demo.airflow_runs", json.dumps(runs(store))]
    with log.open("w") as file:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=airflow_environment(home, bootstrap),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        try:
            for line in process.stdout:
                file.write(line)
                show_progress(line)
        except BaseException:
            process.kill()
            raise
    if process.wait() != 0:
        tail = "".join(log.read_text().splitlines(keepends=True)[-25:])
        raise LabError(f"A DAG run failed; all of its log is in {log.relative_to(ROOT)}, the end of it:\n{tail}")


def show_progress(line: str) -> None:
    """Turn a line of Airflow's log into a word of progress, where it is worth one."""
    if found := _TASK.search(line):
        if found[1] == "starting":
            say(f"    {found[2]} …")
    elif line.startswith("[DEMO] "):
        say(f"  {line.removeprefix('[DEMO] ').strip()}")


def newest(folder: Path) -> Path:
    """Give the newest file of a folder; their names sort by time."""
    return max(folder.glob("*.json"), key=lambda path: path.name)


def main() -> int:
    """Run the demo; give the exit code."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    store = FOLDER / "storage"
    store.mkdir(parents=True)
    (FOLDER / "airflow").mkdir()
    say(f"Starting Kafka {VERSION} with three brokers …")
    with KafkaCluster(version=VERSION, brokers=3) as cluster:
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
            run_dags(cluster.bootstrap, store)
            workload.check()
            left = frozenset(list_groups(cluster.bootstrap))
    return tell(store / "demo", truth, left)


def tell(store: Path, truth: Truth, left: frozenset[str]) -> int:
    """Write the summary, print the table, and hold it against the truth."""
    audit = read(newest(store / "audit"))
    plan = read(store / "plans" / f"{audit['plan_id']}.json")
    summary = summarise(plan, audit, truth, left)
    (FOLDER / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    shutil.copy(store / "reports" / f"{audit['plan_id']}.html", FOLDER / "report.html")
    print(f"\n{table(summary)}\n\n  some of them, and why:")
    for group in [*plan["groups"][:3], *one_of_each(plan["kept"])]:
        print(f"    {group['group_id']:<44} {group['reason']}")
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


def one_of_each(kept: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Give one kept group of each verdict."""
    return list({group["verdict"]: group for group in kept}.values())


def read(path: Path) -> dict[str, Any]:
    """Read a JSON file."""
    content: dict[str, Any] = json.loads(path.read_text())
    return content


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        print(f"\n{error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
