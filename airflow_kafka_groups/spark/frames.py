"""Name what every transform and every schema is made of: a function of a DataFrame, columns with and without nulls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructField

Transform: TypeAlias = Callable[[DataFrame], DataFrame]
"""What ``DataFrame.transform`` takes: a DataFrame in, a DataFrame out, nothing read or written."""


def required(name: str, data_type: DataType) -> StructField:
    """Give a column that is never null.

    :param name: name of the column.
    :param data_type: type of the column.
    """
    return StructField(name, data_type, nullable=False)


def optional(name: str, data_type: DataType) -> StructField:
    """Give a column that may be null.

    :param name: name of the column.
    :param data_type: type of the column.
    """
    return StructField(name, data_type, nullable=True)
