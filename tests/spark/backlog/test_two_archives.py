"""Two jobs that archive the same at once, such as two tries of a task: the summary names the first one's archive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.spark.backlog.archive import check_archive
from airflow_kafka_groups.spark.jobs import archive_backlog as job
from tests.lab.workload.groups import commit_offsets
from tests.spark.backlog.test_archive_backlog import snapshot
from tests.spark.kafka import fill, write_properties

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_the_second_does_not_replace_the_summary_of_the_first(
    spark: SparkSession, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who was told of the first archive, and deletes folders that no summary names, would lose it."""
    fill(kafka, {("two-archives", 0): 3})
    commit_offsets(kafka, {"two-archives": {("two-archives", 0): 1}})
    snapshot(kafka, tmp_path, "two-archives")
    given = ["--kafka-properties", str(write_properties(tmp_path, kafka)), "--base", tmp_path.as_uri()]
    arguments = job.parse_arguments([*given, "--cluster", "c", "--group", "two-archives"])
    first = list[dict[str, Any]]()

    def slowly(*of: Any) -> dict[str, Any]:
        monkeypatch.setattr(job, "check_archive", check_archive)
        first.append(job.run(spark, arguments))
        return check_archive(*of)

    monkeypatch.setattr(job, "check_archive", slowly)
    with pytest.raises(JobError, match="another job has archived the same meanwhile, and an archive is never overwrit"):
        job.run(spark, arguments)
    (path,) = (tmp_path / "c" / "summaries" / "archives").glob("*.json")
    assert [json.loads(path.read_text())] == first
