"""What jobs log: in Spark's format, where there is Spark."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence


def warn(message: str) -> None:
    """Log a warning."""
    spark = sys.modules.get("pyspark.logger")  # not imported: a job that needs no Spark would wait for it
    (spark.PySparkLogger if spark else logging).getLogger("airflow_kafka_groups").warning(message)


def logged(warnings: Sequence[str]) -> list[str]:
    """Log warnings, and return them."""
    for warning in warnings:
        warn(warning)
    return list(warnings)
