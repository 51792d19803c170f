"""A judgement by two executors of 512 MB: their tasks read every row, and one of them, or the driver, may be killed."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.spark.bundle import APPLICATION
from tests.bench_spark.processes import executors_of, files_read, running, task_ends
from tests.bench_spark.staleness import stale, write_history
from tests.histories.judged import judge, verdict_folder
from tests.histories.lake import CLUSTER
from tests.lab.spark.standalone import SparkCluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(800)]

GROUPS, PARTITIONS, SNAPSHOTS, FILES = 12_000, 5, 6, 3
SETTINGS = {
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.files.openCostInBytes": "1",
    "spark.sql.files.maxPartitionBytes": "300k",  # several tasks
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    with SparkCluster(cores=2, memory_mb=1100) as started:
        yield started


@pytest.fixture
def base(tmp_path: Path) -> Path:
    write_history(tmp_path, GROUPS, PARTITIONS, SNAPSHOTS, files=FILES)
    return tmp_path


def start(cluster: SparkCluster, base: Path, settings: Mapping[str, str]) -> CompletedProcess[str]:
    given = ("--base", base.as_uri(), "--cluster", CLUSTER, "--min-idle-seconds", str((SNAPSHOTS - 1) * 3600))
    return cluster.submit(APPLICATION, "judge_staleness", *given, settings=settings, timeout=600)


def submit(cluster: SparkCluster, base: Path, logs: Path) -> dict[str, Any]:
    logs.mkdir()
    events = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": logs.as_uri(),
    }
    done = start(cluster, base, SETTINGS | events)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(next(line for line in done.stdout.splitlines() if line.startswith('{"job"')))
    assert (found["snapshots_reduced"], found["verdicts"]["stale"]) == (SNAPSHOTS, stale(GROUPS))
    return found


@contextmanager
def killing(found: Callable[[], Sequence[int]]) -> Iterator[list[int]]:
    """Kill processes as soon as there are any, and return them."""
    killed, ended = list[int](), threading.Event()

    def kill() -> None:
        while not (killed or ended.wait(0.1)):
            for pid in found():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield killed
    finally:
        ended.set()
        killer.join()


def drivers_of(base: Path) -> list[int]:
    """Return the processes of a driver whose tasks write observations: the JVM and its Python."""
    if not [*base.glob(f"{CLUSTER}/tables/observations/snapshot_id=*/*.parquet")]:
        return []
    given = base.as_uri().encode()
    found = []
    for pid, _ in running():
        with suppress(OSError):  # it ended just now
            if given in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def require_as_in_one_process(base: Path, found: dict[str, Any]) -> None:
    rows = pq.read_table(Path(found["output"].removeprefix("file://"))).sort_by("group_id").to_pylist()
    judge(base, "--min-idle-seconds", str((SNAPSHOTS - 1) * 3600))
    assert pq.read_table(verdict_folder(base, SNAPSHOTS - 1)).sort_by("group_id").to_pylist() == rows


def test_the_tasks_of_both_read_each_row(cluster: SparkCluster, base: Path, tmp_path: Path) -> None:
    submit(cluster, base, tmp_path / "logs")
    tasks, data = task_ends(tmp_path / "logs"), [*(base / CLUSTER / "data").rglob("*.parquet")]
    assert files_read(tmp_path / "logs") == len(data) == SNAPSHOTS * FILES, "each once"
    sizes = sum(path.stat().st_size for path in data)
    assert sum(task["Task Metrics"]["Input Metrics"]["Bytes Read"] for task in tasks) >= sizes
    assert {task["Task Info"]["Executor ID"] for task in tasks} == {"0", "1"}


def test_an_executor_that_is_killed_costs_nothing(cluster: SparkCluster, base: Path, tmp_path: Path) -> None:
    def seconds_later() -> list[int]:
        if found := executors_of(cluster)[:1]:
            time.sleep(4)
        return found

    with killing(seconds_later) as killed:
        found = submit(cluster, base, tmp_path / "logs")
    assert killed
    require_as_in_one_process(base, found)


def test_a_driver_that_is_killed_costs_nothing(cluster: SparkCluster, base: Path, tmp_path: Path) -> None:
    with killing(lambda: drivers_of(base)) as killed:
        done = start(cluster, base, SETTINGS)
    assert killed
    assert done.returncode
    assert not [*base.glob(f"{CLUSTER}/tables/verdicts/*")]
    observed = [*base.glob(f"{CLUSTER}/summaries/observations/*.json")]
    assert len(observed) < SNAPSHOTS, "it was killed before it had published all of them"
    found = submit(cluster, base, tmp_path / "logs")
    require_as_in_one_process(base, found)
    observed = pq.read_table(base / CLUSTER / "tables" / "observations", partitioning=None)
    assert observed.num_rows == SNAPSHOTS * GROUPS, "each observation once"
