"""The table of observations, and their files as Spark reads them: what the snapshots have, and each once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.judge.staleness.judging import judged_history
from airflow_kafka_groups.judge.staleness.observations import Reduction
from airflow_kafka_groups.judge.staleness.policy import StalenessPolicy
from airflow_kafka_groups.observe.history.snapshots import find_history
from airflow_kafka_groups.spark.catalogue import CatalogueTable, add_observations
from airflow_kafka_groups.spark.frames import OBSERVATION_SCHEMA
from airflow_kafka_groups.storage import job_files as local_disk
from airflow_kafka_groups.storage.job_files import LocalStorage, Storage, Workers
from airflow_kafka_groups.storage.paths import new_id
from airflow_kafka_groups.storage.schemas import OBSERVATION_COLUMNS
from tests.histories.judged import judge, verdicts, write_hour
from tests.histories.lake import CLUSTER, write_snapshot
from tests.histories.shorthand import HOUR, snapshot_id
from tests.unit.judge.staleness.test_observation_store import HOURS, manifest_of

pytestmark = pytest.mark.spark


class Table:
    """A table with rows of somebody else's under the id of a snapshot."""

    def __init__(self) -> None:
        self.rows: list[object] = ["other"]

    def counts(self, _: str) -> dict[str, int]:
        return {snapshot_id(0): len(self.rows)}

    def replace(self, _: str, rows: DataFrame, expected: Mapping[str, int]) -> None:
        self.rows = list(rows.collect())
        assert expected == {snapshot_id(0): len(self.rows)}


def test_rows_under_the_id_of_a_snapshot_without_groups_are_removed(spark: SparkSession, tmp_path: Path) -> None:
    write_snapshot(tmp_path, 0, [])
    storage, table = LocalStorage(), Table()
    history = find_history(storage, tmp_path.as_uri(), CLUSTER)
    with Workers(is_local=True) as workers:
        reduction = Reduction(storage, history, workers)
        found = judged_history(storage, history, StalenessPolicy(min_idle_seconds=HOUR), workers, reduction)
    add_observations(spark, found, cast("CatalogueTable", table), CLUSTER)
    assert table.rows == []


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """Return a base with three snapshots, reduced and judged."""
    for number in HOURS:
        write_hour(tmp_path, number)
    judge(tmp_path)
    return tmp_path


def test_observations_are_a_table_with_a_partition_for_each_snapshot(spark: SparkSession, judged: Path) -> None:
    table = spark.read.parquet(f"{judged.as_uri()}/{CLUSTER}/tables/observations")
    assert set(table.columns) == {column.name for column in OBSERVATION_COLUMNS} | {"snapshot_id"}
    counted = {row["snapshot_id"]: row["count"] for row in table.groupBy("snapshot_id").count().collect()}
    assert counted == {snapshot_id(0): 2, snapshot_id(1): 2, snapshot_id(2): 3}
    assert table.where("run_id <> snapshot_id or rows <> 1 or invalid <> 0").count() == 0
    assert not list((judged / CLUSTER / "tables" / "observations").glob("_*"))


class KilledError(Exception):
    """What ends a job in these tests."""


@pytest.mark.parametrize(("owner", "method"), [(local_disk, "move"), (Storage, "write_text")])
def test_a_job_that_is_killed_between_data_and_manifest_leaves_what_the_next_one_uses_or_hides(
    spark: SparkSession, judged: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, method: str
) -> None:
    write_hour(judged, 3)

    def killed(*_: object, **__: object) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(owner, method, killed)
        patched.setattr(Storage, "delete_folder", lambda *_: None)
        with pytest.raises(KilledError):
            judge(judged)
    assert not manifest_of(judged, 3).exists()
    table = judged / CLUSTER / "tables" / "observations"
    (left,) = table.glob("_*")
    assert spark.read.parquet(table.as_uri()).where(f"run_id = '{snapshot_id(3)}'").count() == (
        3 if method == "write_text" else 0
    )
    assert judge(judged)["snapshots_reduced"] == 1
    assert [row["observations"] for row in verdicts(judged, 3)] == [1, 2, 4]
    assert spark.read.parquet(table.as_uri()).where(f"run_id = '{snapshot_id(3)}'").count() == 3
    assert left.exists()  # its job may still be at work
    old = left.with_name(f"_{new_id(datetime.now(UTC) - timedelta(days=2))}")
    left.rename(old)
    write_hour(judged, 4)
    judge(judged)
    assert not old.exists()


def test_a_snapshot_is_one_file_whatever_the_session_says(spark: SparkSession, judged: Path) -> None:
    write_hour(judged, 3)
    spark.conf.set("spark.sql.files.maxRecordsPerFile", 1)
    try:
        assert judge(judged, spark=spark)["groups"] == 3
    finally:
        spark.conf.unset("spark.sql.files.maxRecordsPerFile")


def test_what_a_job_of_another_version_left_is_counted_by_no_reader_of_the_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It was killed before the manifest, and its file has the same rows, other bytes, and so another name."""
    write_hour(tmp_path, 0)
    judge(tmp_path)
    table = tmp_path / CLUSTER / "tables" / "observations"
    left = spark.read.schema(OBSERVATION_SCHEMA).parquet(str(table)).coalesce(1)
    left.write.option("compression", "snappy").parquet(str(tmp_path / "left"))
    (written,) = (tmp_path / "left").glob("part-*.parquet")
    (folder,) = table.glob("snapshot_id=*")
    (file,) = folder.glob("part-*.parquet")
    file.unlink()
    written.rename(folder / f"part-{0:032x}.parquet")
    (tmp_path / CLUSTER / "summaries" / "observations" / f"{snapshot_id(0)}.json").unlink()
    judge(tmp_path)
    assert list(folder.glob("part-*.parquet")) == [file]
    assert spark.read.parquet(str(table)).count() == 2
