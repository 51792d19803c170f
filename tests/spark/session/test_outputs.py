"""What a job may replace: its own summary and rows, and what no other run writes at the same time."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import ArgumentError, JobError, StorageError
from airflow_kafka_groups.spark.frames import COMMIT_GROUP_SCHEMA
from airflow_kafka_groups.spark.hadoop_storage import Hadoop, storage_of
from airflow_kafka_groups.spark.jobs import (
    archive_backlog,
    commit_history,
    judge_staleness,
    process_group_backlog,
    roll_up,
)
from airflow_kafka_groups.spark.jobs.process_group_backlog import OUTPUT_MODES, BacklogOutput
from airflow_kafka_groups.storage.file_storage import Storage
from airflow_kafka_groups.storage.job_outputs import require_replaceable
from tests.histories.judged import judge, verdict_folder, verdict_summary, write_hour
from tests.histories.lake import CLUSTER
from tests.spark.kafka import write_properties
from tests.spark.rows import a_slice

pytestmark = pytest.mark.spark


@pytest.mark.safety
@pytest.mark.parametrize(
    ("job", "more"),
    [
        (commit_history, "--output {}"),
        (process_group_backlog, "--group g --transform mine:same --result {}/summary.json"),
    ],
)
def test_a_file_that_a_summary_would_cost_is_named(spark: SparkSession, tmp_path: Path, job: Any, more: str) -> None:
    (mine := tmp_path / "summary.json").write_text("{}")
    arguments = ["--kafka-properties", str(write_properties(tmp_path, "localhost:1")), *more.format(tmp_path).split()]
    refused = r"\.json is there, which this job did not write and would delete"
    with pytest.raises(ArgumentError, match=rf"{arguments[-2]} \(got '.*'\): .*{refused}"):
        job.run(spark, job.parse_arguments(arguments))
    assert mine.read_text() == "{}"


@pytest.mark.safety
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
        other._make_room(a_slice("20260101T000000Z-00000002"))
        done.touch()

    rows = spark.range(0, 9, 1, 3)
    slow = rows.mapInArrow(wait_for_the_other, rows.schema)
    thread = threading.Thread(target=replace)
    thread.start()
    mine = BacklogOutput(spark, out, "parquet", mode)
    try:
        with pytest.raises(JobError, match=r"is written by another run, too"):
            mine.write(slow, a_slice("20260101T000000Z-00000001"))
    finally:
        done.touch()
        asked.touch()
        thread.join()


@pytest.mark.safety
def test_a_run_that_is_alone_leaves_nothing_but_its_slices(spark: SparkSession, tmp_path: Path) -> None:
    run_id, rows = "20260101T000000Z-00000001", spark.range(3)
    mine = BacklogOutput(spark, str(tmp_path), "parquet", "errorifexists")
    (tmp_path / f"_writes-{run_id}-1").touch()  # of an attempt that was killed
    for number in (1, 2):
        mine.write(rows, a_slice(run_id, number, attempt=2))
    assert {path.name for path in tmp_path.iterdir()} == {f"backlog_slice={run_id}-00000{n}-2" for n in (1, 2)}
    assert spark.read.parquet(str(tmp_path)).count() == 6


REFUSED = "which this job did not write and would delete"


@pytest.mark.safety
@pytest.mark.parametrize("file_format", ["parquet", "json"])
def test_a_table_of_somebody_else_is_not_replaced(spark: SparkSession, tmp_path: Path, file_format: str) -> None:
    place = f"{tmp_path}/orders"
    spark.range(3).selectExpr("id", "'mine' AS verdict").write.format(file_format).save(place)
    with pytest.raises(ArgumentError, match=f"--output .* has part-00000-.*, {REFUSED}"):
        require_replaceable(storage_of(spark, place), place, ["verdict"])


@pytest.mark.safety
def test_a_table_with_the_same_partitions_as_the_job_s_is_not_replaced(spark: SparkSession, tmp_path: Path) -> None:
    """Tables of other programs have a column run_id, too; the job's own has nothing beside its folders."""
    names = COMMIT_GROUP_SCHEMA.names
    mine, other = str(tmp_path / "mine"), str(tmp_path / "other")
    spark.createDataFrame([], COMMIT_GROUP_SCHEMA).write.parquet(f"{mine}/run_id=r")
    require_replaceable(storage_of(spark, mine), mine, names, "run_id")
    rows = spark.range(3).selectExpr("id", "'r' AS run_id", "1 AS day")
    for by, first in ((["run_id"], "part-.*"), (["run_id", "day"], "day=1")):
        rows.write.mode("overwrite").partitionBy(*by).parquet(other)
        with pytest.raises(ArgumentError, match=f"has run_id=r/{first}, {REFUSED}"):
            require_replaceable(storage_of(spark, other), other, names, "run_id")


@pytest.mark.safety
@pytest.mark.parametrize("what", ["summary", "verdicts"])
def test_what_the_storage_keeps_stops_the_job_before_anything_is_replaced(
    spark: SparkSession, tmp_path: Path, what: str
) -> None:
    """A folder of another user: of some storages, Hadoop answers that nothing was deleted, and raises nothing."""
    write_hour(tmp_path, 0)
    judge(tmp_path)
    kept = verdict_summary(tmp_path, 0) if what == "summary" else verdict_folder(tmp_path, 0)
    before = sorted(verdict_folder(tmp_path, 0).iterdir())

    class Keeping:
        def __init__(self, fs: Any) -> None:
            self.fs = fs

        def __getattr__(self, name: str) -> Any:
            return getattr(self.fs, name)

        def delete(self, path: Any, recursive: bool) -> bool:
            return not str(path.toString()).endswith(kept.name) and bool(self.fs.delete(path, recursive))

    def of_another_user(path: str) -> Storage:
        there = Hadoop(spark, path)
        there._fs = Keeping(there._fs)
        return Storage(there, there.path)

    asked = ["--base", str(tmp_path), "--cluster", CLUSTER, "--min-idle", "1h"]
    with pytest.raises(StorageError, match=f"{kept.name} could not be removed: .*the storage keeps it"):
        judge_staleness.run_here(of_another_user, judge_staleness.parse_arguments(asked))
    assert sorted(verdict_folder(tmp_path, 0).iterdir()) == before


OF_JOBS = {
    process_group_backlog: "--kafka-properties k --group g",
    roll_up: "--base /b",
    commit_history: "--kafka-properties k",
    archive_backlog: "--base /b --cluster c --kafka-properties k --group g",
}


@pytest.mark.parametrize(
    ("job", "output"),
    [
        *((job, output) for job in OF_JOBS for output in ("/out/*", "/out{a,b}", "s3a://bucket/o[1]")),
        *((archive_backlog, output) for output in ("", "/")),
    ],
)
def test_an_output_that_is_a_pattern_or_nothing_is_refused(
    capsys: pytest.CaptureFixture[str], job: Any, output: str
) -> None:
    """Of a backlog, rows that nobody could read would be committed besides."""
    with pytest.raises(SystemExit):
        job.parse_arguments(["--output", output, *OF_JOBS[job].split()])
    said = f"--output (got {output.rstrip('/')!r}): give a folder or URI without any of * ? [ ] {{ }}"
    assert said in capsys.readouterr().err
