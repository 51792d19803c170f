"""``python -m tests.bench.job``: run the whole job on three real brokers, a process for each step, and time it.

Writes ``build/bench/job.json``, flat keys; what is measured again replaces what was there. Ends with 1 when a step did
not do what it had to do, 2 for bad arguments or a missing Java.
"""

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from typing import Any

from tests.bench.__main__ import environment
from tests.bench.job import report
from tests.bench.job.groups import PARTITIONS, RECORDS, TOPIC
from tests.bench.job.lag import measure_lag
from tests.bench.job.steps import Steps
from tests.bench.job.whole import JUDGES, run_job
from tests.bench.report import put_between_markers
from tests.bench.toolchains import REPOSITORY
from tests.lab.cluster import KafkaCluster
from tests.lab.errors import LabError
from tests.lab.workload.topics import create_topics, produce

BUILD = REPOSITORY / "build" / "bench"
OUTPUT = BUILD / "job.json"
PAGE = REPOSITORY / "docs" / "benchmarks.md"
GROUPS = (12_000, 60_000)
VERSION, BROKERS, HEAP_MB = "4.1.0", 3, 1024


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.job", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--groups", nargs="*", type=int, default=list(GROUPS), help="passes of the job, default 12000 60000"
    )
    parser.add_argument("--lag-groups", type=int, default=10_000, help="groups whose lag is measured; 0: none")
    parser.add_argument("--judge", choices=JUDGES, default="spark", help="who judges: the Spark job, or a stand-in")
    parser.add_argument("--write-docs", action="store_true", help="put the results into docs/benchmarks.md")
    parser.add_argument("--report-only", action="store_true", help="measure nothing; report what was measured before")
    chosen = parser.parse_args(arguments)
    if any(groups < 1 for groups in chosen.groups):
        parser.error("--groups must be at least 1")
    found: dict[str, Any] = json.loads(OUTPUT.read_text()) if OUTPUT.is_file() else {}
    if not chosen.report_only:
        try:
            measure(chosen, found)
        except LabError as error:
            print(error, file=sys.stderr)
            return 1
    text = report.tables(found)
    print(f"\n{text}")
    if chosen.write_docs:
        PAGE.write_text(put_between_markers(PAGE.read_text(), text, report.MARKS))
    return 0


def measure(chosen: argparse.Namespace, found: dict[str, Any]) -> None:
    """Measure what was chosen, and write the file after each pass."""
    folder = BUILD / "job"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    say(f"Starting Kafka {VERSION} with {BROKERS} brokers …")
    with KafkaCluster(version=VERSION, brokers=BROKERS, heap_mb=HEAP_MB, full_jit=True) as cluster:
        steps = Steps(cluster.bootstrap, folder, say)
        if chosen.lag_groups:
            say(f"Lag of {chosen.lag_groups:,} groups")
            write(found, measure_lag(cluster, steps, chosen.lag_groups), os.getloadavg()[0])
        create_topics(cluster.bootstrap, {TOPIC: PARTITIONS})
        produce(cluster.bootstrap, {(TOPIC, partition): RECORDS for partition in range(PARTITIONS)}, timeout=300)
        for groups in chosen.groups:
            load = os.getloadavg()[0]
            say(f"{groups:,} groups of {PARTITIONS} partitions")
            taken = run_job(steps, groups, judge=chosen.judge)
            write(found, report.flatten(groups, taken), load)


def write(found: dict[str, Any], measured: dict[str, Any], load: float) -> None:
    found |= measured
    found |= {**report.growths(found), "machine": environment(load)}
    OUTPUT.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
