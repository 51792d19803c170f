"""Retention removes records of a run that has begun: the next try says what to do, as the same command cannot help."""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.spark.session import SPARK_ERRORS
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.topics import quiet
from tests.spark.kafka import Submit, add, behind, committed

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_a_try_whose_records_are_gone_names_the_way_on(submit: Submit, kafka: str, tmp_path: Path) -> None:
    behind(kafka, "br", {("br", 0): (0, 20)})
    admin, slices = AdminClient(quiet(kafka)), []

    def cut(records: Any) -> None:
        slices.append(records.count())
        if len(slices) == 1:
            for future in admin.delete_records([TopicPartition("br", 0, 15)]).values():
                future.result(timeout=30)

    asked: list[Any] = ["--group", "br", cut, "--records", str(tmp_path / "records")]
    asked += ["--max-records-per-slice", "5"]
    with pytest.raises(SPARK_ERRORS):  # it was begun before anybody could know
        submit(*asked)
    for more in ([], ["--on-data-loss", "skip-to-start"]):
        with pytest.raises(JobError, match=r"br\[0\] begins at 15, .* 5 .*--start-over --on-data-loss skip-to-start"):
            submit(*asked, *more)
    assert committed(kafka, "br", ("br", 0)) == [5]
    summary = submit(*asked, "--start-over", "--on-data-loss", "skip-to-start")
    assert (summary["outcome"], summary["offsets_lost"], slices) == ("committed", 10, [5, 5])
    assert committed(kafka, "br", ("br", 0)) == [20]


def test_a_new_run_in_the_output_of_one_that_was_given_up_is_told_to_keep_its_committed_slices(
    submit: Submit, kafka: str, tmp_path: Path, spark: SparkSession
) -> None:
    behind(kafka, "bo", {("bo", 0): (0, 20)})
    admin, output = AdminClient(quiet(kafka)), tmp_path / "out"

    def cut(records: DataFrame, context: Any) -> DataFrame:
        if context.slice == 2:
            for future in admin.delete_records([TopicPartition("bo", 0, 15)]).values():
                future.result(timeout=30)
        return records

    asked: list[Any] = ["--group", "bo", cut, "--output", str(output)]
    with pytest.raises(SPARK_ERRORS):
        submit(*asked, "--max-records-per-slice", "5")
    (output / "_writes-of-a-killed-run-1").touch()
    over = ("--start-over", "--on-data-loss", "skip-to-start")
    said = r"out exists and has backlog_slice=.* of another run: give another --output, or --output-mode append; overw"
    with pytest.raises(JobError, match=said):  # what the first one committed is nowhere else
        submit(*asked, *over)
    submit(*asked, *over, "--output-mode", "append")
    assert sorted(row["offset"] for row in spark.read.parquet(str(output)).collect()) == [*range(5), *range(15, 20)]


def failed_once(submit: Submit, kafka: str, folder: Path, name: str) -> list[Any]:
    """Let a transform fail on the backlog of a group, from 2 to 9 of one partition; return the job's arguments."""

    def fail(records: Any) -> None:
        raise ValueError("not yet")

    behind(kafka, name, {(name, 0): (2, 9)})
    asked = ["--group", name, "--records", str(folder / "records")]
    with pytest.raises(JobError, match="not yet"):
        submit(fail, *asked)
    return [count, *asked]


def count(records: Any) -> None:
    records.count()


def test_a_run_is_given_up_also_where_nothing_is_left_to_read(submit: Submit, kafka: str, tmp_path: Path) -> None:
    asked = failed_once(submit, kafka, tmp_path, "bn")
    commit_offsets(kafka, {"bn": {("bn", 0): 9}})  # its consumer came back, and read everything
    with pytest.raises(JobError, match=r"Somebody else moved it.*--start-over"):
        submit(*asked)
    assert submit(*asked, "--start-over")["offsets"] == 0
    add(kafka, {("bn", 0): 3})
    assert submit(*asked)["offsets"] == 3


def test_a_try_whose_log_ends_before_its_records_names_the_way_on(submit: Submit, kafka: str, tmp_path: Path) -> None:
    """As after an unclean election of a leader; here the topic is recreated, and the group set to where it was."""
    asked = failed_once(submit, kafka, tmp_path, "bt")
    behind(kafka, "bt", {("bt", 0): (2, 5)})
    with pytest.raises(JobError, match=r"bt\[0\] ends at 5, and its records up to 9 .* left.*truncated.*--start-over"):
        submit(*asked)
    assert committed(kafka, "bt", ("bt", 0)) == [2]
    summary = submit(*asked, "--start-over")
    assert (summary["outcome"], summary["offsets"]) == ("committed", 3)
    assert committed(kafka, "bt", ("bt", 0)) == [5]
