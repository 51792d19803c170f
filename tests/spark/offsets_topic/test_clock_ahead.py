"""A driver whose clock was ahead claims to have read the log of commits until a time that had not come."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.spark.offsets_topic import last_commits
from airflow_kafka_groups.spark.offsets_topic.last_commits import read_folder
from tests.histories.commits import describe_commits
from tests.histories.shorthand import hour

pytestmark = [pytest.mark.spark, pytest.mark.safety]

AHEAD = timedelta(minutes=10)


@pytest.mark.parametrize("written", [timedelta(0), -timedelta(hours=5)], ids=["now", "hours ago"])
def test_commit_history_of_a_driver_whose_clock_was_ahead_is_no_evidence(
    spark: SparkSession, tmp_path: Path, written: timedelta
) -> None:
    """A snapshot of the minutes in between would be judged by commits that nobody read."""
    write_groups(spark, tmp_path)
    at = datetime.now(UTC) + written
    assert "the clock of its driver was ahead" in not_read(spark, tmp_path, at, at + AHEAD)
    assert not_read(spark, tmp_path, at, at - AHEAD) == not_read(spark, tmp_path, at, at) == ""


def test_where_the_judging_driver_s_clock_is_behind_that_one_is_named_too(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_groups(spark, tmp_path)
    at = datetime.now(UTC)

    class Behind(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Behind:
            return cls.fromtimestamp((at - AHEAD).timestamp(), tz)

    monkeypatch.setattr(last_commits, "datetime", Behind)
    said = not_read(spark, tmp_path, at, at - timedelta(minutes=1))
    assert f"it is {(at - AHEAD).isoformat()} by the judging driver's clock" in said
    assert "the clock of its driver was ahead, or this one is behind" in said


def write_groups(spark: SparkSession, folder: Path) -> None:
    rows = spark.createDataFrame([("g", hour(1))], "group_id string, last_commit_at timestamp")
    rows.write.parquet(f"{folder}/groups/run_id=r")


def not_read(spark: SparkSession, folder: Path, written: datetime, until: datetime) -> str:
    """Return why the folder's summary, which was written then, is no evidence."""
    path = folder / "summary.json"
    describe_commits(folder, kafka_cluster_id="k", read_until=until.isoformat())
    os.utime(path, (written.timestamp(), written.timestamp()))
    found = read_folder(spark, folder.as_uri(), "k")
    assert found.rows is not None  # a sign of life counts all the same
    return found.evidence.not_read
