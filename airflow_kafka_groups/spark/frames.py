"""Queries over DataFrames, as SQL text: each call of a Column function is several calls to the driver's JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from pyspark.sql import DataFrame

Transform: TypeAlias = Callable[[DataFrame], DataFrame]
"""The type of ``DataFrame.transform``'s argument: no reads or writes."""


def query(text: str, values: Mapping[str, Any] | None = None, **frames: DataFrame) -> DataFrame:
    """Return the result of a SQL query over DataFrames.

    :param text: the query, with the DataFrames' names in braces.
    :param values: what it names ``:name``. Default: none.
    """
    spark = next(iter(frames.values())).sparkSession
    return spark.sql(text, dict(values or {}), **frames)


def in_list(values: Iterable[str]) -> str:
    """Return constant strings as the list after SQL's IN."""
    return f"({', '.join(map(repr, sorted(map(str, values))))})"
