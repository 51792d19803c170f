"""Processes, and what this one and all that it started have used of the processor: other work changes time more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


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
