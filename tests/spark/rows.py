"""Rows of snapshots as DataFrames."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from airflow_kafka_groups.spark.frames import SNAPSHOT_SCHEMA
from tests.histories.shorthand import SnapshotRow

_SCHEMA = StructType([StructField(field.name, field.dataType) for field in SNAPSHOT_SCHEMA])


def snapshot_rows(spark: SparkSession, rows: Sequence[SnapshotRow]) -> DataFrame:
    """Return rows of a snapshot as Spark reads them: nobody has checked which are null."""
    return spark.createDataFrame([tuple(row[name] for name in _SCHEMA.names) for row in rows], _SCHEMA)
