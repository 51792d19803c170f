"""The table of the session's catalogue that has the observations of complete snapshots."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_groups.judge.staleness.judging import JudgedHistory
from airflow_kafka_groups.spark.catalogue import CatalogueTable
from airflow_kafka_groups.spark.frames import OBSERVATION_SCHEMA, read_stored


def add_observations(spark: SparkSession, judged: JudgedHistory, table: CatalogueTable, cluster: str) -> None:
    """Write the observations that a table lacks, such as those of a killed run, and those that were made again.

    The latter are of other rows. Those of an incomplete snapshot, or of named groups, stay out, also if it is judged
    itself: groups that it lacks would seem to be gone, and no column tells why.
    """
    there, complete, store = table.counts(cluster), judged.complete, judged.store
    again = {name for name, each in complete.items() if name in store.reduced and each.groups}
    lacking = {name: each for name, each in complete.items() if there.get(name, 0) != each.groups or name in again}
    sizes = {name: each.groups for name, each in lacking.items()}
    if sizes:
        rows = _read(spark, store.files(lacking.values())).withColumn("snapshot_id", F.col("run_id"))
        table.replace(cluster, rows, sizes)


def _read(spark: SparkSession, files: list[str]) -> DataFrame:
    if not files:
        return spark.createDataFrame([], OBSERVATION_SCHEMA)
    return read_stored(spark).parquet(*files)
