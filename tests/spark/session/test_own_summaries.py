"""What the file of a job's summary may replace: a summary of the same job, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import ArgumentError
from airflow_kafka_groups.spark.jobs import commit_history, lag_report, process_group_backlog
from tests.histories.judged import judge, write_hour
from tests.histories.lake import CLUSTER, write_snapshot
from tests.histories.shorthand import seen
from tests.spark.kafka import write_properties

pytestmark = [pytest.mark.spark, pytest.mark.safety]

REFUSED = r"/mine\.json is there, which this job did not write and would delete"


def lag(base: Path, *arguments: str, spark: SparkSession) -> dict[str, Any]:
    return lag_report.run(spark, lag_report.parse_arguments(["--base", str(base), "--cluster", CLUSTER, *arguments]))


@pytest.mark.parametrize("text", ['{"format": 3, "plan_id": "p"}', '{\n "job": "judge_staleness_of_others"\n}', "[]"])
def test_a_file_that_a_report_s_output_would_cost_is_named(spark: SparkSession, tmp_path: Path, text: str) -> None:
    """Such as the manifest of a backup, by ``--output backups/ID``."""
    write_snapshot(tmp_path, 1, seen(1))
    mine = tmp_path / "mine.json"
    mine.write_text(text)
    before = sorted(tmp_path.rglob("*"))
    for job in (lag, judge):
        with pytest.raises(ArgumentError, match=rf"--output \(got '.*/mine'\): .*{REFUSED}"):
            job(tmp_path, "--output", str(tmp_path / "mine"), spark=spark)
    with pytest.raises(ArgumentError, match=rf"--summary \(got '.*/mine\.json'\): .*{REFUSED}"):
        judge(tmp_path, "--summary", str(mine))
    assert mine.read_text() == text
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_that_a_history_s_summary_would_cost_is_named(spark: SparkSession, tmp_path: Path) -> None:
    (mine := tmp_path / "mine.json").write_text("{}")
    properties = write_properties(tmp_path, "localhost:1")
    arguments = ["--kafka-properties", str(properties), "--output", str(tmp_path / "out"), "--summary", str(mine)]
    with pytest.raises(ArgumentError, match=rf"--summary \(got '.*/mine\.json'\): .*{REFUSED}"):
        commit_history.run(spark, commit_history.parse_arguments(arguments))
    assert mine.read_text() == "{}"


def test_a_file_that_a_backlog_s_result_would_cost_is_named(spark: SparkSession, tmp_path: Path) -> None:
    (mine := tmp_path / "mine.json").write_text("{}")
    arguments = ["--kafka-properties", str(write_properties(tmp_path, "localhost:1")), "--group", "g"]
    arguments += ["--transform", "mine:same", "--result", str(mine)]
    with pytest.raises(ArgumentError, match=rf"--result \(got '.*/mine\.json'\): .*{REFUSED}"):
        process_group_backlog.run(spark, process_group_backlog.parse_arguments(arguments))
    assert mine.read_text() == "{}"


def test_an_earlier_summary_and_what_a_killed_job_left_of_one_are_replaced(spark: SparkSession, tmp_path: Path) -> None:
    write_hour(tmp_path, 1)
    for job in (lag, judge):
        output = tmp_path / job.__name__
        for left in (None, 10_000, 30, 8, 0):
            summary = output.with_suffix(".json")
            if left is not None:
                summary.write_text(summary.read_text()[:left])
            job(tmp_path, "--output", str(output), spark=spark)
            assert summary.read_text().endswith("}\n")
