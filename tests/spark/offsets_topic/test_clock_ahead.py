"""A driver whose clock was ahead claims to have read the log of commits until a time that had not come."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.spark.offsets_topic.last_commits import read_folder
from tests.spark.histories import hour

pytestmark = [pytest.mark.spark, pytest.mark.safety]

AHEAD = timedelta(minutes=10)


@pytest.mark.parametrize("written", [timedelta(0), -timedelta(hours=5)], ids=["now", "hours ago"])
def test_commit_history_of_a_driver_whose_clock_was_ahead_is_no_evidence(
    spark: SparkSession, tmp_path: Path, written: timedelta
) -> None:
    """A snapshot of the minutes in between would be judged by commits that nobody read."""
    rows = spark.createDataFrame([("g", hour(1))], "group_id string, last_commit_at timestamp")
    rows.write.parquet(f"{tmp_path}/groups")
    at = datetime.now(UTC) + written

    def not_read(ahead: timedelta) -> str:
        summary = {"kafka_cluster_id": "k", "read_until": (at + ahead).isoformat()}
        path = tmp_path / "summary.json"
        path.write_text(json.dumps(summary))
        os.utime(path, (at.timestamp(), at.timestamp()))
        found = read_folder(spark, tmp_path.as_uri(), "k")
        assert found.rows is not None  # a sign of life counts all the same
        return found.evidence.not_read

    assert "the clock of its driver was ahead" in not_read(AHEAD)
    assert not_read(-AHEAD) == not_read(timedelta(0)) == ""
