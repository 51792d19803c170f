"""What runs out on a real executor, or the executor itself: the last line of the job names the setting that helps."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from airflow_kafka_groups.spark.bundle import APPLICATION
from tests.bench_spark.processes import executors_of, running
from tests.histories.lake import CLUSTER, write_manifest, write_snapshot
from tests.histories.shorthand import seen, snapshot_id
from tests.lab.spark.standalone import SparkCluster
from tests.spark.clusters.shipping import last_line
from tests.spark.clusters.test_two_executors import killing

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

TOO_LARGE = 400 * 2**20
"""Bytes of a file that no executor of 512 MB can hold, let alone twice."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    with SparkCluster(cores=1, memory_mb=600) as started:
        yield started


def parents() -> set[int]:
    """Return the processes that have others: of executors, those whose tasks run in Python."""
    return {int(fields[1]) for _, fields in running()}


@pytest.mark.parametrize(
    ("what", "settings", "remedy"),
    [
        ("results", {"spark.driver.maxResultSize": "1k"}, "Give the driver more by spark.driver.maxResultSize"),
        ("heap", {}, "Give the executors more by spark.executor.memory"),
        (
            "python",
            {"spark.executor.pyspark.memory": "200m"},
            "Give Python on the executors more by spark.executor.pyspark.memory",
        ),
        ("executor", {}, "If the executors had too little memory, give them more by spark.executor.memory and"),
    ],
)
def test_the_last_line_names_the_setting(
    cluster: SparkCluster, tmp_path: Path, what: str, settings: dict[str, str], remedy: str
) -> None:
    for number in (0, 1):
        write_snapshot(tmp_path, number, seen(number))
    if what == "heap":  # a hole: to write it takes no time, and to hold it all of its size
        name = snapshot_id(1)
        with (tmp_path / CLUSTER / "data" / name / "part-00000.parquet").open("r+b") as file:
            os.truncate(file.fileno(), TOO_LARGE)
        write_manifest(tmp_path, name, 1)
    words = ("--base", tmp_path.as_uri(), "--cluster", CLUSTER, "--min-idle-seconds", "3600")
    with ExitStack() as stack:
        if what == "executor":
            stack.enter_context(killing(lambda: [pid for pid in executors_of(cluster) if pid in parents()]))
        once = {"spark.task.maxFailures": "1", "spark.cores.max": "1", "spark.executor.cores": "1"}
        done = cluster.submit(APPLICATION, "judge_staleness", *words, settings=once | settings)
    assert done.returncode == 1, done.stdout
    assert f". {remedy}" in last_line(done), last_line(done)
