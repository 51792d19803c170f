"""Stream the offsets of up to 2,000,000 groups from a simulated cluster: ``python -m tests.bench.streaming``.

The simulated brokers are a process of their own and answer in constant memory, so that the client's time and memory are
what is measured. Writes build/bench/streaming.json and prints a table. Ends with 1 when the client takes more than
``MOST_MB``, or when twice the groups take more than ``MOST_GROWTH`` times as long.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from typing import Any

from airflow_kafka_groups.kafka import AdminClient, ClientConfig
from tests.bench.process import peak_mb
from tests.bench.toolchains import REPOSITORY

FILE = REPOSITORY / "build" / "bench" / "streaming.json"
SIZES = (500_000, 1_000_000, 2_000_000)
PARTITIONS = 4
MOST_MB = 300
MOST_GROWTH = 2.4
_TIMEOUT_S = 600.0


async def stream(bootstrap: str, groups: int) -> dict[str, Any]:
    """Stream so many groups in this process, and return what it took."""
    config = ClientConfig.from_librdkafka({"bootstrap.servers": bootstrap}, api_timeout=_TIMEOUT_S)
    group_ids = [f"team.service-{number:07d}" for number in range(groups)]
    async with AdminClient(config) as admin:
        begin, begin_cpu = time.perf_counter(), time.process_time()
        seen = offsets = 0
        async for result in admin.stream_consumer_group_offsets(group_ids):
            seen += 1
            offsets += len(result.unwrap())
        seconds, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    assert (seen, offsets) == (groups, groups * PARTITIONS)
    return {
        "groups": groups,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu, 2),
        "peak_mb": peak_mb(os.getpid()),
    }


def measure() -> list[dict[str, Any]]:
    """Stream each number of groups in a fresh process."""
    command = [sys.executable, "-m", "tests.fakes.raw_cluster"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as cluster:
        try:
            assert cluster.stdout is not None
            bootstrap = cluster.stdout.readline().strip()
            return [_in_a_process(bootstrap, groups) for groups in SIZES]
        finally:
            cluster.kill()


def _in_a_process(bootstrap: str, groups: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.bench.streaming", bootstrap, str(groups)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY, check=True, timeout=_TIMEOUT_S + 60
    )
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def main() -> int:
    rows = measure()
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps(rows, indent=1) + "\n")
    print("\n| groups of 4 partitions | seconds | processor seconds | peak memory |\n|---|---|---|---|")
    for row in rows:
        print(f"| {row['groups']:,} | {row['seconds']} | {row['cpu_seconds']} | {row['peak_mb']:.0f} MB |")
    growth = rows[-1]["cpu_seconds"] / rows[-2]["cpu_seconds"]
    print(f"\nTwice the groups took {growth:.2f} times the processor time.")
    return int(growth > MOST_GROWTH or max(row["peak_mb"] for row in rows) > MOST_MB)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(asyncio.run(stream(sys.argv[1], int(sys.argv[2])))))
    else:
        sys.exit(main())
