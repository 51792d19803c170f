"""How tables of the session's catalogue are created, or refused, whatever other jobs and sessions do."""

from __future__ import annotations

import shutil
from pathlib import Path
from threading import Event, Thread, current_thread
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.exceptions import ArgumentError, JobError
from airflow_kafka_groups.spark.catalogue import CatalogueTable
from airflow_kafka_groups.spark.frames import schema_of
from airflow_kafka_groups.spark.session.settings import settings_of
from airflow_kafka_groups.storage.schemas import columns
from tests.spark.ledger.test_catalogue import SCHEMA, counts, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_a_table_of_a_session_that_has_ended_is_not_to_be_deleted(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    """Spark's own advice is to remove the folder. Without a metastore, each spark-submit is in this place."""
    CatalogueTable(spark, f"{database}.lags", SCHEMA).replace("c", rows_of(spark, ("a", 1)), {"s1": 1})
    shutil.copytree(tmp_path / "warehouse" / "lags", tmp_path / "warehouse" / "earlier")
    with pytest.raises(JobError, match=r"LOCATION_ALREADY_EXISTS.* Keep that folder.*catalogImplementation=hive"):
        CatalogueTable(spark, f"{database}.earlier", SCHEMA)


def test_a_catalogue_that_the_session_does_not_have_is_said_to_be_missing(spark: SparkSession) -> None:
    """Spark takes its name for that of a database in its own catalogue, and says that it has too many parts."""
    missing = r"--table \(got 'lake.kafka.lags'\): .*This session has no such catalogue: .*spark.sql.catalog.NAME=…"
    with pytest.raises(ArgumentError, match=missing):
        CatalogueTable(spark, "lake.kafka.lags", SCHEMA)
    without_jars = settings_of(spark, {"spark.sql.catalog.lake": "org.nowhere.Catalog"})
    with without_jars, pytest.raises(ArgumentError, match=missing):
        CatalogueTable(spark, "lake.kafka.lags", SCHEMA)


@pytest.mark.safety
def test_a_table_in_which_rows_of_before_would_stay_is_refused(spark: SparkSession, database: str) -> None:
    """Of a partition by verdict, a run that is repeated replaces only the verdicts that it has, too."""
    spark.sql(
        "CREATE TABLE akg.finer (lag BIGINT, cluster STRING, snapshot_id STRING, group_id STRING) USING parquet "
        "PARTITIONED BY (cluster, snapshot_id, group_id)"
    )
    with pytest.raises(ArgumentError, match=r"it is partitioned by group_id, too, so .*\(cluster, snapshot_id\)"):
        CatalogueTable(spark, "akg.finer", SCHEMA)


def test_a_table_has_instants_whatever_type_the_session_calls_timestamp(spark: SparkSession, database: str) -> None:
    schema = schema_of(columns({"group_id": "string", "at": "timestamp"}))
    with settings_of(spark, {"spark.sql.timestampType": "TIMESTAMP_NTZ"}):
        for _ in range(2):
            CatalogueTable(spark, f"{database}.times", schema)
    assert dict(spark.table("akg.times").dtypes)["at"] == "timestamp"


@pytest.mark.safety
def test_jobs_in_threads_of_one_session_replace_their_own_partitions_only(
    spark: SparkSession, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first one puts back, as it found it, lets Spark replace the complete table in the second one."""
    table = CatalogueTable(spark, f"{database}.lags", SCHEMA)
    table.replace("before", rows_of(spark, ("a", 1)), {"s1": 1})
    inside, ended = Event(), Event()
    asked = SparkSession.sql

    def slowly(session: SparkSession, text: str, *more: Any, **frames: Any) -> DataFrame:
        if text.startswith("INSERT") and current_thread() is second:
            inside.set()
            ended.wait(20)
        elif text.startswith("INSERT"):
            second.start()
            inside.wait(1)
        return asked(session, text, *more, **frames)

    def replace() -> None:
        table.replace("second", rows_of(spark, ("b", 2)), {"s1": 1})

    second = Thread(target=replace)
    monkeypatch.setattr(SparkSession, "sql", slowly)
    table.replace("first", rows_of(spark, ("c", 3)), {"s1": 1})
    ended.set()
    second.join()
    assert counts(spark, "akg.lags", "cluster") == {"before": 1, "first": 1, "second": 1}
    assert str(spark.conf.get("spark.sql.sources.partitionOverwriteMode")).lower() == "static", "as it was"


def test_a_table_that_another_job_creates_at_the_same_time_is_used(
    spark: SparkSession, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta ends all but one of several concurrent statements with an error, also with IF NOT EXISTS."""
    asked = SparkSession.sql

    def sql(session: SparkSession, text: str, *more: Any, **frames: Any) -> Any:
        answer = asked(session, text, *more, **frames)
        if text.startswith("CREATE TABLE"):
            raise PySparkException("[DELTA_PROTOCOL_CHANGED] by a concurrent update")
        return answer

    monkeypatch.setattr(SparkSession, "sql", sql)
    CatalogueTable(spark, f"{database}.lags", SCHEMA).replace("c", rows_of(spark, ("a", 1)), {"s1": 1})
    assert counts(spark, "akg.lags", "snapshot_id") == {"s1": 1}


def test_a_table_is_of_sparks_default_format_also_where_older_sessions_made_hives(
    spark: SparkSession, database: str
) -> None:
    """Hive's default is text: a line break in a name would be the end of a row."""
    with settings_of(spark, {"spark.sql.legacy.createHiveTableByDefault": "true"}):
        table = CatalogueTable(spark, f"{database}.lags", SCHEMA)
        table.replace("c", rows_of(spark, ("a\nb", 1)), {"s1": 1})
    assert [row["group_id"] for row in spark.table("akg.lags").collect()] == ["a\nb"]


def test_a_table_of_sparks_catalogue_is_written_while_another_one_is_the_default(
    spark: SparkSession, database: str
) -> None:
    elsewhere = {
        "spark.sql.catalog.elsewhere": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        "spark.sql.catalog.elsewhere.url": "jdbc:nowhere",
        "spark.sql.catalog.elsewhere.driver": "java.lang.Object",
        "spark.sql.defaultCatalog": "elsewhere",
    }
    with settings_of(spark, elsewhere):
        table = CatalogueTable(spark, f"{database}.lags", SCHEMA)
        for snapshot, lag in (("s1", 1), ("s2", 2), ("s1", 3)):
            table.replace("c", rows_of(spark, ("a", lag)), {snapshot: 1})
    found = spark.table("akg.lags").orderBy("snapshot_id").collect()
    assert [(row["snapshot_id"], row["lag"]) for row in found] == [("s1", 3), ("s2", 2)]


def test_jobs_in_threads_of_one_session_create_no_table_of_hives(
    spark: SparkSession, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one to end would let Spark make the other's a table of text, and that one leave its own setting."""
    name, asked, legacy = "spark.sql.legacy.createHiveTableByDefault", SparkSession.sql, list[str | None]()
    inside, ended = Event(), Event()

    def sql(session: SparkSession, text: str, *more: Any, **frames: Any) -> Any:
        if text.startswith("CREATE TABLE"):
            if current_thread() is second:
                inside.set()
                ended.wait(60)
                legacy.append(session.conf.get(name))
            else:
                second.start()
                inside.wait(60)
        return asked(session, text, *more, **frames)

    second = Thread(target=CatalogueTable, args=(spark, f"{database}.second", SCHEMA))
    monkeypatch.setattr(SparkSession, "sql", sql)
    with settings_of(spark, {name: "true"}):
        CatalogueTable(spark, f"{database}.first", SCHEMA)
        ended.set()
        second.join()
        assert (legacy, spark.conf.get(name)) == (["false"], "true")
