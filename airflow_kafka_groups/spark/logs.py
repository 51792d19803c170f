"""What jobs log: in Spark's format, where there is Spark."""

from __future__ import annotations

import logging
from collections.abc import Sequence


def warn(message: str) -> None:
    """Log a warning."""
    _logger().warning(message)


def logged(warnings: Sequence[str]) -> list[str]:
    """Log warnings, and return them."""
    for warning in warnings:
        warn(warning)
    return list(warnings)


def _logger() -> logging.Logger:
    try:
        from pyspark.logger import PySparkLogger  # a job that needs no Spark has no reason to wait for this
    except ImportError:
        return logging.getLogger("airflow_kafka_groups")
    return PySparkLogger.getLogger("airflow_kafka_groups")
