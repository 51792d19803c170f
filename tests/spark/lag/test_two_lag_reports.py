"""Two reports on one snapshot at once: figures of a table that lost rows are not reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.spark import lag
from airflow_kafka_groups.spark.errors import JobError
from airflow_kafka_groups.spark.jobs import lag_report as job
from tests.spark.histories import seen, snapshot_id
from tests.spark.lake import CLUSTER, write_snapshot
from tests.spark.offsets_topic.test_two_commit_histories import GROUPS, replaced_by_another

pytestmark = pytest.mark.spark


def test_what_another_job_deleted_while_it_was_written_is_noticed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark commits what the last task wrote, and the total lag was that of its groups."""
    write_snapshot(tmp_path, 1, [row for name in GROUPS for row in seen(1, group=name)], groups=len(GROUPS))
    arguments = job.parse_arguments(["--base", str(tmp_path), "--cluster", CLUSTER])
    assert job.run(spark, arguments)["partitions"] == len(GROUPS)
    folder = tmp_path / CLUSTER / "tables" / "lag_partitions" / f"snapshot_id={snapshot_id(1)}"
    with_seconds = lag.with_seconds

    def slowly(*frames: Any) -> DataFrame:
        return replaced_by_another(folder, lambda rows: with_seconds(rows, frames[1]))(frames[0])

    monkeypatch.setattr(job, "with_seconds", slowly)
    with pytest.raises(JobError, match=r"lag_partitions/.* has \d rows where 9 were written: another job wrote there"):
        job.run(spark, arguments)
    assert not list((tmp_path / CLUSTER / "summaries" / "lag_partitions").glob("*.json"))
