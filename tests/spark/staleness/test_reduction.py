"""Where snapshots are reduced: in the driver's threads, or in Spark's tasks, which come to the same."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread, current_thread
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.spark import reduction
from airflow_kafka_groups.spark.session.settings import settings_of
from tests.histories.judged import hour_rows, judge, verdicts, write_hour
from tests.histories.lake import CLUSTER, write_data, write_manifest
from tests.histories.shorthand import snapshot_id
from tests.unit.judge.staleness.test_observation_store import HOURS, cut_off, file_of, of_another

pytestmark = pytest.mark.spark

BY_EXECUTORS = ("--driver-rows", "0")


def jobs_of(spark: SparkSession, work: Callable[[], object]) -> int:
    """Return how many Spark jobs a function starts."""
    group = uuid.uuid4().hex
    spark.sparkContext.setJobGroup(group, "counted")
    try:
        work()
    finally:
        spark.sparkContext._jsc.clearJobGroup()
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))


def test_few_rows_start_no_spark_job_and_many_come_to_the_same_in_tasks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = tmp_path / "few", tmp_path / "many"
    for base in (few, many):
        for number in HOURS:
            write_hour(base, number)
    assert jobs_of(spark, lambda: judge(few, spark=spark)) == 0
    assert jobs_of(spark, lambda: judge(many, *BY_EXECUTORS, spark=spark)) == 0, "one machine has no other"
    shutil.rmtree(many / CLUSTER / "tables")
    monkeypatch.setattr(reduction, "runs_locally", lambda _: False)
    monkeypatch.setattr(reduction, "_ROWS_AT_ONCE", 5)
    assert jobs_of(spark, lambda: judge(many, *BY_EXECUTORS, spark=spark)) > 1
    assert verdicts(few, 2) == verdicts(many, 2)
    assert [file_of(few, number).name for number in HOURS] == [file_of(many, number).name for number in HOURS]


@pytest.mark.parametrize("spoil", ["bytes", "rows"])
def test_a_task_says_which_file_it_cannot_use(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: str
) -> None:
    write_hour(tmp_path, 0)
    if spoil == "bytes":
        part = write_data(tmp_path, snapshot_id(1), hour_rows(1))
        write_manifest(tmp_path, snapshot_id(1), 2)
        cut_off(part)
        problem = f"{snapshot_id(1)} is incomplete.*part-00000.parquet: it cannot be read as Parquet"
    else:
        problem = of_another(tmp_path, 1)
    monkeypatch.setattr(reduction, "runs_locally", lambda _: False)
    with pytest.raises(SnapshotError, match=problem):
        judge(tmp_path, *BY_EXECUTORS, spark=spark)


def test_what_fails_a_task_is_said(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_hour(tmp_path, 0)
    monkeypatch.setattr(reduction, "runs_locally", lambda _: False)
    spark.conf.set("spark.sql.sources.binaryFile.maxLength", 1000)
    try:
        with pytest.raises(SnapshotError, match=r"cannot be read: .*part-00000\.parquet"):
            judge(tmp_path, *BY_EXECUTORS, spark=spark)
    finally:
        spark.conf.unset("spark.sql.sources.binaryFile.maxLength")


def test_tasks_get_a_file_at_a_time_until_the_last_of_two_judgements_has_read_its_own(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In threads of one session, the first one to end would put back what the other one needs, and that one its own."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    first, second = tmp_path / "first", tmp_path / "second"
    for base in (first, second):
        write_hour(base, 0)
        write_hour(base, 1)
    sizes = list[str | None]()
    inside, ended = Event(), Event()
    kind = type(spark.range(1))
    asked = kind.mapInArrow

    def map_in_arrow(frame: DataFrame, *given: Any) -> DataFrame:
        if current_thread() is other:
            inside.set()
            ended.wait(60)
            sizes.append(spark.conf.get(name))
        else:
            other.start()
            inside.wait(60)
        return asked(frame, *given)

    other = Thread(target=judge, args=(second, *BY_EXECUTORS), kwargs={"spark": spark})
    monkeypatch.setattr(reduction, "runs_locally", lambda _: False)
    monkeypatch.setattr(kind, "mapInArrow", map_in_arrow)
    with settings_of(spark, {name: "500"}):
        judge(first, *BY_EXECUTORS, spark=spark)
        ended.set()
        other.join()
        assert (sizes, spark.conf.get(name)) == (["1"], "500")
