"""What the past costs a decision, with 100, 1,000 and 10,000 snapshots: ``python -m tests.bench.ledger``.

Two connections take them in turns, of 100 groups, in memory, and each tenth time a group is to be kept alive; the
storage is a local folder. Prints how many files the log has, how long the newest snapshot took to fold after all others
were, a question by a plan, and the table made again.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from itertools import repeat
from pathlib import Path

from airflow_kafka_groups.ledger.ledger import Ledger, fold_snapshots
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, NOW
from tests.fakes.wanted import want

GROUPS, PARTITIONS, ASKED = 100, 3, 5
_IDLE = timedelta(days=30)
COUNTS = (100, 1_000, 10_000)


def main(arguments: list[str]) -> int:
    """Measure; return the exit code.

    :param arguments: numbers of snapshots. Default: 100, 1,000 and 10,000.
    """
    folder = Path(tempfile.mkdtemp())
    try:
        measure(folder, sorted(map(int, arguments)) or list(COUNTS))
    finally:
        shutil.rmtree(folder)
    return 0


def measure(base: Path, counts: list[int]) -> None:
    admin, layouts = FakeAdmin(), [Layout(base, "prod"), Layout(base, "other")]
    for number in range(GROUPS):
        admin.add(f"team-{number:06d}", *[("t", partition, number) for partition in range(PARTITIONS)])
    for number in range(counts[-1]):
        layout, at = layouts[number % 2], NOW + timedelta(hours=number)
        asyncio.run(take_snapshot(admin, layout, now=repeat(at).__next__))
        if number % 10 == 0:
            want(layout, f"team-{number % GROUPS:06d}", at=at, lasts=_IDLE)
        if {number + 1, number + 2}.intersection(counts):
            folded = seconds(partial(fold_snapshots, layout, CLUSTER_ID))
        if number + 1 in counts:
            files = len(list(base.glob("_journal/*/log/*")))
            ask = [seconds(partial(Ledger(layouts[0], CLUSTER_ID).known, None, at - _IDLE)) for _ in range(ASKED)]
            took = f"fold {folded:.3f} s, ask {statistics.median(ask):.3f} s"
            print(f"{number + 1:6,} snapshots, {files:,} files in the log: {took}", flush=True)
    next(base.glob("_journal/*/signs.parquet")).unlink()
    print(f"fold all again: {seconds(partial(fold_snapshots, layouts[0], CLUSTER_ID)):.1f} s")


def seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
