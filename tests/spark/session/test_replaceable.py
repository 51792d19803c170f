"""What a job's ``--output`` may replace: its own rows, and nothing else that Spark wrote there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import ArgumentError, StorageError
from airflow_kafka_groups.spark.frames import COMMIT_GROUP_SCHEMA
from airflow_kafka_groups.spark.hadoop_storage import HadoopStorage, storage_of
from airflow_kafka_groups.spark.jobs.lag_report import parse_arguments, run
from airflow_kafka_groups.spark.session_on_demand import NoSession, SessionOnDemand
from airflow_kafka_groups.storage.job_outputs import require_replaceable
from tests.histories.judged import judge, verdict_folder, verdict_summary, write_hour
from tests.histories.lake import CLUSTER, write_snapshot
from tests.histories.shorthand import seen

pytestmark = [pytest.mark.spark, pytest.mark.safety]

REFUSED = "which this job did not write and would delete"


@pytest.mark.parametrize("file_format", ["parquet", "json"])
def test_a_table_of_somebody_else_is_not_replaced(spark: SparkSession, tmp_path: Path, file_format: str) -> None:
    write_hour(tmp_path, 0)
    place = tmp_path / "orders"
    spark.range(3).selectExpr("id", "'mine' AS verdict").write.format(file_format).save(str(place))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ArgumentError, match=f"--output .* has part-00000-.*, {REFUSED}"):
        judge(tmp_path, "--output", str(place))
    assert sorted(tmp_path.rglob("*")) == before


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


@pytest.mark.parametrize("what", ["summary", "verdicts"])
def test_what_the_storage_keeps_stops_the_job_before_anything_is_replaced(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
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

    def of_another_user(_: SessionOnDemand, path: str) -> HadoopStorage:
        storage = HadoopStorage(spark, path)
        storage._fs = Keeping(storage._fs)
        return storage

    monkeypatch.setattr(NoSession, "storage", of_another_user)
    with pytest.raises(StorageError, match=f"{kept.name} cannot be deleted: the storage keeps it"):
        judge(tmp_path)
    assert sorted(verdict_folder(tmp_path, 0).iterdir()) == before


def test_a_lag_report_replaces_its_own_tables_only(spark: SparkSession, tmp_path: Path) -> None:
    write_snapshot(tmp_path, 0, seen(0))
    given = ["--base", str(tmp_path), "--cluster", CLUSTER, "--output", str(tmp_path / "out")]
    for _ in range(2):
        run(spark, parse_arguments(given))
    spark.range(3).write.mode("overwrite").parquet(str(tmp_path / "out" / "topics"))
    with pytest.raises(ArgumentError, match=REFUSED):
        run(spark, parse_arguments(given))
