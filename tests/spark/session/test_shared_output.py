"""Two runs that write to one folder at once: neither commits what the other one deleted while it was written."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.spark.backlog.output import OUTPUT_MODES, BacklogOutput
from airflow_kafka_groups.spark.unread.ranges import BacklogContext

pytestmark = [pytest.mark.spark, pytest.mark.safety]


def context_of(run_id: str, number: int = 1, attempt: int = 1) -> BacklogContext:
    of_run = {"run_id": run_id, "group_id": "g", "kafka_cluster_id": "k", "ranges": (), "repeats": False}
    return BacklogContext(**of_run, slice=number, slices=2, attempt=attempt)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", OUTPUT_MODES)
def test_a_slice_that_another_run_deleted_while_its_tasks_wrote_it_is_not_whole(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    """The rows of the tasks before that are lost, those of later ones are committed, and Spark says nothing."""
    out = str(tmp_path / "out")
    other = BacklogOutput(spark, out, "parquet", "overwrite")
    asked, done = tmp_path / "asked", tmp_path / "done"

    def wait_for_the_other(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        if context is not None and context.partitionId() == 2:
            asked.touch()
            while not done.exists():
                time.sleep(0.02)
        yield from batches

    def replace() -> None:
        while not asked.exists():
            time.sleep(0.02)
        other._make_room(context_of("20260101T000000Z-00000002"))
        done.touch()

    rows = spark.range(0, 9, 1, 3)
    slow = rows.mapInArrow(wait_for_the_other, rows.schema)
    thread = threading.Thread(target=replace)
    thread.start()
    mine = BacklogOutput(spark, out, "parquet", mode)
    try:
        with pytest.raises(JobError, match=r"is written by another run, too"):
            mine.write(slow, context_of("20260101T000000Z-00000001"))
    finally:
        done.touch()
        asked.touch()
        thread.join()


def test_a_run_that_is_alone_leaves_nothing_but_its_slices(spark: SparkSession, tmp_path: Path) -> None:
    run_id, rows = "20260101T000000Z-00000001", spark.range(3)
    mine = BacklogOutput(spark, str(tmp_path), "parquet", "errorifexists")
    (tmp_path / f"_writes-{run_id}-1").touch()  # of an attempt that was killed
    for number in (1, 2):
        mine.write(rows, context_of(run_id, number, attempt=2))
    assert {path.name for path in tmp_path.iterdir()} == {f"backlog_slice={run_id}-00000{n}-2" for n in (1, 2)}
    assert spark.read.parquet(str(tmp_path)).count() == 6
