"""``python -m tests.bench.command_line``: processor time of the command line for 10,000 groups, and of its start.

Each figure is the median of five processes, on a local cluster of three brokers. The time for 10,000 groups is without
the start, which is a run for one group.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from statistics import median

from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import seed_groups
from tests.lab.workload.topics import create_topics, produce

GROUPS, PARTITIONS, RUNS = 10_000, 3, 5


def main() -> None:
    """Measure and print."""
    names = [f"command-line-{number:05}" for number in range(GROUPS)]
    with KafkaCluster(version="4.1.0", brokers=3) as cluster:
        create_topics(cluster.bootstrap, {"t": PARTITIONS})
        produce(cluster.bootstrap, {("t", number): 5 for number in range(PARTITIONS)})
        seed_groups(cluster.bootstrap, names, {("t", number): 0 for number in range(PARTITIONS)})
        for command in ("offsets", "lag"):
            start = median(_processor_seconds(cluster.bootstrap, command, names[0]) for _ in range(RUNS))
            every = median(_processor_seconds(cluster.bootstrap, command) for _ in range(RUNS))
            print(f"{command}: start {start:.2f} s, {GROUPS:,} groups {every - start:.2f} s")


def _processor_seconds(bootstrap: str, *words: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    program = [sys.executable, "-m", "airflow_kafka_groups", *words, "--bootstrap-servers", bootstrap]
    subprocess.run(program, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
