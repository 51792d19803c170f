"""One step in a process of its own, as Airflow runs each task: ``python -m tests.bench.job.step``.

Reads a line of JSON from stdin, ``{"name", "operator": "module:Class", "arguments"}`` for a task or ``{"name",
"bootstrap", "groups"}`` for a call of the core, and writes one to stdout: what it took and what it returned. A task's
process has imported Airflow's task runner and the operator before the clock starts; all else that ``execute`` needs is
imported, connected and read while it runs. All logs go to stderr.
"""

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.bench.job.core import Stopwatch
from tests.bench.job.core import run as run_core
from tests.bench.process import peak_mb


def run_task(operator: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Run an operator as a task, and return what it took."""
    from airflow.sdk.execution_time import task_runner  # noqa: F401  # a task's process has it

    module, _, name = operator.partition(":")
    kind = getattr(importlib.import_module(module), name)
    before = peak_mb(os.getpid())
    with Stopwatch() as watch:
        returned = kind(task_id="bench", **arguments).execute({})
    return {"taken": watch.taken, "before_mb": before, "returned": returned}


def show_page(storage: Path, cluster: str) -> dict[str, Any]:
    """Show the groups of a cluster as the page in Airflow's menu does, and return what it took.

    The server has imported what it needs before the clock starts, as after its first request.
    """
    import pyarrow.compute
    import pyarrow.parquet  # noqa: F401

    import airflow_kafka_groups.ledger.deletion_plan
    import airflow_kafka_groups.ledger.verdicts  # noqa: F401
    from airflow_kafka_groups.plugins.groups_facts import groups_page
    from airflow_kafka_groups.storage.layout import Layout

    before = peak_mb(os.getpid())
    with Stopwatch() as watch:
        groups_page(Layout(storage, cluster), {"search": "1", "sort": "-idle"})
    return {"taken": watch.taken, "before_mb": before}


def answer(order: dict[str, Any]) -> dict[str, Any]:
    """Run a step in this process, and return what it took."""
    if "storage" in order:
        done = show_page(Path(order["storage"]), order["cluster"])
    elif "operator" in order:
        done = run_task(order["operator"], order["arguments"])
    else:
        done = {"taken": run_core(order["name"], order["bootstrap"], order["groups"])}
    return {**done, "peak_mb": peak_mb(os.getpid())}


def main() -> int:
    """Run what stdin says, without the package that kio imports for 0.3 s only where tests are installed."""
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    answers.write(json.dumps(answer(json.loads(sys.stdin.readline()))) + "\n")
    answers.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
