"""Processes, and what this one and all that it started have used of the processor: other work changes time more."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.lab.spark.standalone import SparkCluster


def running() -> Iterator[tuple[int, list[str]]]:
    """Yield each process of this machine, and what /proc says of it, from its state on."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended just now
            yield int(stat.parent.name), stat.read_text().rpartition(")")[2].split()


def cpu_seconds() -> float:
    """Add up user and system time of this process and its descendants, those that have ended included."""
    children: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for pid, fields in running():
        children.setdefault(int(fields[1]), []).append(pid)
        used[pid] = sum(map(int, fields[11:15]))  # its own and those of children it has waited for
    total, waiting = 0, [os.getpid()]
    while waiting:
        pid = waiting.pop()
        total += used.get(pid, 0)
        waiting += children.get(pid, [])
    return total / os.sysconf("SC_CLK_TCK")


def executors_of(cluster: SparkCluster) -> list[int]:
    """Return the processes of a cluster's executors."""
    found = []
    for pid, _ in running():
        with suppress(OSError):
            said = Path(f"/proc/{pid}/cmdline").read_text()
            if "CoarseGrainedExecutorBackend" in said and str(cluster.folder) in os.readlink(f"/proc/{pid}/cwd"):
                found.append(pid)
    return found


def task_ends(logs: Path) -> list[dict[str, Any]]:
    """Return what the event log of an application says of its tasks."""
    files = (path for path in logs.rglob("*") if path.is_file() and path.name.startswith(("app-", "events", "local-")))
    events = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    return [event for event in events if event["Event"] == "SparkListenerTaskEnd"]


def files_read(logs: Path) -> int:
    """Return how many files of snapshots tasks have read: those of the first stage that reads any."""
    read = [(task["Stage ID"], task["Task Metrics"]["Input Metrics"]["Records Read"]) for task in task_ends(logs)]
    first = min(stage for stage, records in read if records)
    return sum(records for stage, records in read if stage == first)
