"""Spark's schemas of the stored tables, made from ``contracts.columns``."""

from __future__ import annotations

from pyspark.sql.types import (
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
    OBSERVATION_COLUMNS,
    SNAPSHOT_COLUMNS,
    VERDICT_COLUMNS,
    Columns,
    columns,
)

_TYPES: dict[str, type[DataType]] = {
    "string": StringType,
    "int32": IntegerType,
    "int64": LongType,
    "double": DoubleType,
    "boolean": BooleanType,
    "binary": BinaryType,
    "timestamp": TimestampType,
}


def schema_of(stored: Columns) -> StructType:
    """Return the schema of these columns."""
    return StructType([StructField(name, _TYPES[kind](), nullable) for name, kind, nullable in stored])


def table_schema(**types: str) -> StructType:
    """Return the schema of a table that the jobs alone use, with types as in ``contracts.columns``."""
    return schema_of(columns(types))


SNAPSHOT_SCHEMA = schema_of(SNAPSHOT_COLUMNS)
VERDICT_SCHEMA = schema_of(VERDICT_COLUMNS)
OBSERVATION_SCHEMA = schema_of(OBSERVATION_COLUMNS)
