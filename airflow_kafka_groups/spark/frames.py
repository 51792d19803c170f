"""DataFrames of the stored tables: their schemas, and how they are read and written."""

from __future__ import annotations

from pyspark.sql import DataFrame, DataFrameReader, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructType

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.spark.hadoop_storage import storage_of
from airflow_kafka_groups.storage import schemas as stored
from airflow_kafka_groups.storage.job_outputs import JobFiles
from airflow_kafka_groups.storage.paths import is_data_file
from airflow_kafka_groups.storage.schemas import Columns

_HEADER = StructType().add("key", "string").add("value", "binary")
_TYPES: dict[str, DataType | str] = {"int32": "integer", "int64": "long", "headers": ArrayType(_HEADER)}
"""The types that have another name in Spark."""


def schema_of(columns: Columns) -> StructType:
    """Return the schema of these columns."""
    schema = StructType()
    for each in columns:
        schema.add(each.name, _TYPES.get(each.kind, each.kind), each.nullable)
    return schema


VERDICT_SCHEMA = schema_of(stored.VERDICT_COLUMNS)
OBSERVATION_SCHEMA = schema_of(stored.OBSERVATION_COLUMNS)
SNAPSHOT_SCHEMA = schema_of(stored.SNAPSHOT_COLUMNS)
LAG_SCHEMA = schema_of(stored.LAG_COLUMNS)
COMMIT_SCHEMA = schema_of(stored.COMMIT_COLUMNS)
COMMIT_GROUP_SCHEMA = schema_of(stored.COMMIT_GROUP_COLUMNS)
ROLL_UP_SCHEMA = schema_of(stored.ROLL_UP_COLUMNS)
ARCHIVE_SCHEMA = schema_of(stored.ARCHIVE_COLUMNS)

WHOLE = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
"""Options of a reader: all of it or an error, also in a session that passes over files that it cannot read."""

_CHECKED = {**WHOLE, "parquet.page.verify-checksum.enabled": "true"}


def read_stored(spark: SparkSession, schema: StructType | None = None) -> DataFrameReader:
    """Return a reader of stored tables, which compares each page of a file with its checksum.

    :param schema: their columns. Default: as the files have them.
    """
    reader = spark.read.options(**_CHECKED)
    return reader if schema is None else reader.schema(schema)


BASENAME = "mapreduce.output.basename"


def write_own(rows: DataFrame, folder: str, did: str) -> int:
    """Write rows in place of what a folder has, and return their number.

    :param did: what a job did that writes such rows, for the message.

    Raises ``JobError`` if the folder has other rows afterwards: another job wrote there.
    """
    storage, counts, own = storage_of(rows.sparkSession, folder), Observation(), JobFiles()
    observed = rows.observe(counts, F.count(F.lit(1)).alias("rows"))
    observed.write.option(BASENAME, own.prefix).mode("overwrite").parquet(folder)
    files = [name for name in storage.files(folder) if is_data_file(name)]
    own.require_own(folder, files, did)
    written = int(counts.get["rows"])
    there = read_stored(rows.sparkSession, rows.schema).parquet(folder).count() if files else 0
    if there != written:
        raise JobError(
            f"{folder} has {there} rows where {written} were written: another job {did} at the same time. Run it again"
        )
    return written
