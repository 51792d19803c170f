"""Spark's schemas of the stored tables, made from ``contracts.columns``."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from airflow_kafka_groups.contracts.columns import (
    ARCHIVE_COLUMNS,
    COMMIT_COLUMNS,
    COMMIT_GROUP_COLUMNS,
    LAG_COLUMNS,
    OBSERVATION_COLUMNS,
    ROLL_UP_COLUMNS,
    SNAPSHOT_COLUMNS,
    VERDICT_COLUMNS,
    Columns,
    columns,
)

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "int32": IntegerType(),
    "int64": LongType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "binary": BinaryType(),
    "timestamp": TimestampType(),
    "headers": ArrayType(_HEADER),
}


def schema_of(stored: Columns) -> StructType:
    """Return the schema of these columns."""
    return StructType([StructField(name, _TYPES[kind], nullable) for name, kind, nullable in stored])


def table_schema(**types: str) -> StructType:
    """Return the schema of a table that the jobs alone use, with types as in ``contracts.columns``."""
    return schema_of(columns(types))


SNAPSHOT_SCHEMA = schema_of(SNAPSHOT_COLUMNS)
VERDICT_SCHEMA = schema_of(VERDICT_COLUMNS)
OBSERVATION_SCHEMA = schema_of(OBSERVATION_COLUMNS)
LAG_SCHEMA = schema_of(LAG_COLUMNS)
COMMIT_SCHEMA = schema_of(COMMIT_COLUMNS)
COMMIT_GROUP_SCHEMA = schema_of(COMMIT_GROUP_COLUMNS)
ROLL_UP_SCHEMA = schema_of(ROLL_UP_COLUMNS)
ARCHIVE_SCHEMA = schema_of(ARCHIVE_COLUMNS)
