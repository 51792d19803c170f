"""What the past costs a decision, with 100, 1,000 and 10,000 snapshots: ``python -m tests.bench.ledger``.

Two connections take them in turns, of 100 groups, in memory, and each tenth time a group is to be kept alive; the
storage is a local folder. Prints how many files the log has, how long the newest snapshot took to fold after all others
were, a question by a plan, and the table made again. Then come 2,000 deletions of 500 groups each, of 10,000 in turn,
half of which are deleted; a process of its own asks then, of which the memory is printed, too.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from itertools import repeat
from pathlib import Path
from unittest.mock import patch

from airflow_kafka_groups.ledger import journal
from airflow_kafka_groups.ledger.ledger import Ledger, fold_snapshots
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Outcome, Reason, kept
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, NOW
from tests.fakes.wanted import want

GROUPS, PARTITIONS, ASKED = 100, 3, 5
_ASK = """
import statistics, sys, time
from pathlib import Path
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.storage.arrow_values import use_system_allocator
from airflow_kafka_groups.storage.layout import Layout

use_system_allocator()  # as whatever opens a storage does
took = {name: [] for name in ("all groups", "one group")}
for name, group_ids in [("all groups", None), ("one group", ["team-000001"])] * 5:
    began = time.perf_counter()
    Ledger(Layout(Path(sys.argv[1]), "prod"), sys.argv[2]).known(group_ids).resets()
    took[name].append(time.perf_counter() - began)
most = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print({name: f"{statistics.median(each):.3f} s" for name, each in took.items()}, most)
"""
_IDLE = timedelta(days=30)
COUNTS = (100, 1_000, 10_000)
RUNS, OF_RUN, DELETED = 2_000, 500, 10_000


def main(arguments: list[str]) -> int:
    """Measure; return the exit code.

    :param arguments: numbers of snapshots. Default: 100, 1,000 and 10,000.
    """
    folder = Path(tempfile.mkdtemp())
    try:
        measure(folder, sorted(map(int, arguments)) or list(COUNTS))
        delete(folder)
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


def delete(base: Path) -> None:
    """Write deletions into the log, as runs do, and let a process of its own ask."""
    of_cluster, ledger = journal.Journal(base, CLUSTER_ID), Ledger(Layout(base, "prod"), CLUSTER_ID)
    with patch.object(journal, "VERIFIED", 0):
        for number in range(RUNS):
            at = NOW + timedelta(hours=number)
            names = [f"team-{(number * OF_RUN + place) % DELETED:06d}" for place in range(OF_RUN)]
            facts = {"run_id": f"run-{number}", "request_id": f"plan-{number}", "plan_id": f"plan-{number}"}
            run = of_cluster.begin(facts, at, after=ledger.history())
            run.intend(dict.fromkeys(names[::2], "f" * 64), at)
            gone = [
                GroupOutcome(group_id=name, outcome=Outcome.DELETED, code="safe", reason="deleted")
                for name in names[::2]
            ]
            outcomes = [*gone, *(kept(name, Reason.HAS_MEMBERS, "it has 1 member(s)") for name in names[1::2])]
            run.conclude(outcomes, at)
            run.end(outcomes, {}, at)
    print(f"{RUNS:,} runs of {OF_RUN} groups, {len(list(base.glob('_journal/*/log/*'))):,} files in the log")
    print(f"fold: {seconds(partial(fold_snapshots, Layout(base, 'prod'), CLUSTER_ID)):.1f} s")
    for table in base.glob("_journal/*/signs.parquet"):
        print(f"table: {table.stat().st_size / 1e6:.1f} MB", flush=True)
    subprocess.run([sys.executable, "-c", _ASK, str(base), CLUSTER_ID], check=True)


def seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
