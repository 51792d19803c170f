"""The commits that a job read before: of what contradicts itself the later one counts, and an error is said."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.shown import first_line
from airflow_kafka_groups.spark.errors import SPARK_ERRORS
from airflow_kafka_groups.spark.frames import COMMIT_GROUP_SCHEMA
from tests.histories.commits import describe_commits
from tests.histories.judged import judge, verdicts
from tests.histories.lake import CLUSTER, flip_a_bit, write_snapshot
from tests.histories.shorthand import HOUR, hour, seen

pytestmark = [pytest.mark.spark, pytest.mark.safety]


def write_commits(spark: SparkSession, folder: Path, hours: Sequence[float]) -> Path:
    """Write the output of ``commit_history``, and return its file."""
    names = COMMIT_GROUP_SCHEMA.names
    known = [{"group_id": "again", "partitions": 1, "last_commit_at": hour(each)} for each in hours]
    rows = [tuple(each.get(name) for name in names) for each in known]
    spark.createDataFrame(rows, COMMIT_GROUP_SCHEMA).coalesce(1).write.parquet(f"{folder}/groups/run_id=r")
    describe_commits(folder, read_until=hour(4).isoformat())
    (file,) = (folder / "groups" / "run_id=r").glob("part-*.parquet")
    return file


def write_hours(base: Path) -> None:
    for number in range(4):
        write_snapshot(base, number, seen(number, group="again"))


@pytest.mark.parametrize("hours", [(1, 3), (3, 1)])
def test_of_two_last_commits_of_a_group_the_later_one_counts(
    spark: SparkSession, tmp_path: Path, hours: Sequence[float]
) -> None:
    write_hours(tmp_path)
    write_commits(spark, tmp_path / "history", hours)
    judge(tmp_path, "--min-idle-seconds", str(2 * HOUR), "--commit-history", str(tmp_path / "history"), spark=spark)
    assert [row["verdict"] for row in verdicts(tmp_path, 3)] == ["moving"]


def test_what_is_wrong_with_them_is_said(spark: SparkSession, tmp_path: Path) -> None:
    write_hours(tmp_path)
    file = write_commits(spark, tmp_path / "history", [1, 2])
    file.with_name(f".{file.name}.crc").unlink()
    flip_a_bit(file, "last_commit_at")
    with pytest.raises(SPARK_ERRORS) as failed:
        judge(tmp_path, "--commit-history", str(tmp_path / "history"), spark=spark)
    assert file.name in first_line(failed.value)
    assert not (tmp_path / CLUSTER / "summaries" / "verdicts").exists()
