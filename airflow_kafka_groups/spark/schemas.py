"""Spark's schemas of the stored tables, made from ``contracts.columns``."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, DataType, StructType

from airflow_kafka_groups.contracts import columns as stored
from airflow_kafka_groups.contracts.columns import Columns

_HEADER = StructType().add("key", "string").add("value", "binary")
_TYPES: dict[str, DataType | str] = {"int32": "integer", "int64": "long", "headers": ArrayType(_HEADER)}
"""The types that have another name in Spark."""


def schema_of(columns: Columns) -> StructType:
    """Return the schema of these columns."""
    schema = StructType()
    for name, kind, nullable in columns:
        schema.add(name, _TYPES.get(kind, kind), nullable)
    return schema


SNAPSHOT_SCHEMA = schema_of(stored.SNAPSHOT_COLUMNS)
VERDICT_SCHEMA = schema_of(stored.VERDICT_COLUMNS)
OBSERVATION_SCHEMA = schema_of(stored.OBSERVATION_COLUMNS)
LAG_SCHEMA = schema_of(stored.LAG_COLUMNS)
COMMIT_SCHEMA = schema_of(stored.COMMIT_COLUMNS)
COMMIT_GROUP_SCHEMA = schema_of(stored.COMMIT_GROUP_COLUMNS)
ROLL_UP_SCHEMA = schema_of(stored.ROLL_UP_COLUMNS)
ARCHIVE_SCHEMA = schema_of(stored.ARCHIVE_COLUMNS)
