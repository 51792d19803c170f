"""Queries over DataFrames, as SQL text: each call of a Column function is several calls to the driver's JVM."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.types import StructType

WHOLE = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
"""Options of a reader: all of it or an error, also in a session that passes over files that it cannot read."""

_CHECKED = {**WHOLE, "parquet.page.verify-checksum.enabled": "true"}


def read_stored(spark: SparkSession, schema: StructType | None = None) -> DataFrameReader:
    """Return a reader of tables that the package stores, which compares each page of a file with its checksum.

    Without that, most flipped bits are read as other rows. Files of earlier versions have no checksums.

    :param schema: their columns. Default: as the files have them.
    """
    reader = spark.read.options(**_CHECKED)
    return reader if schema is None else reader.schema(schema)


def query(text: str, **frames: DataFrame) -> DataFrame:
    """Return the result of a SQL query over DataFrames.

    :param text: the query, with the DataFrames' names in braces. Nothing in it comes from a cluster. It has no named
        parameters (``:name``): the SQL parser of Delta's session extension does not bind them.
    """
    return next(iter(frames.values())).sparkSession.sql(text, None, **frames)


def in_list(values: Iterable[str]) -> str:
    """Return constant strings as the list after SQL's IN."""
    return f"({', '.join(map(repr, sorted(map(str, values))))})"
