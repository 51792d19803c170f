"""The columns of the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_kafka_groups.contracts.columns import Columns, columns
from airflow_kafka_groups.maintenance import arrow_schema as arrow

SOURCE_COLUMNS = columns(
    {
        "cluster_id": "string, null",
        "observed_at": "timestamp",
        "group_id": "string",
        "group_type": "string",
        "protocol_type": "string",
        "state": "string",
        "coordinator": "int32, null",
        "topic": "string, null",
        "partition": "int32, null",
        "committed_offset": "int64, null",
        "leader_epoch": "int32, null",
        "metadata": "string, null",
        "log_start": "int64, null",
        "log_end": "int64, null",
        "lag": "int64, null",
        "error": "string, null",
    }
)
"""Columns named as in a snapshot; ``cluster_id`` is Kafka's own id of the cluster."""

SOURCE_NAMES = tuple(column.name for column in SOURCE_COLUMNS)
LOG_END_NAMES = frozenset({"log_start", "log_end", "lag"})
"""The columns for which the ends of the logs are requested."""


def chosen(names: Sequence[str]) -> Columns:
    """Return some of the columns, in the order of their names."""
    return tuple(SOURCE_COLUMNS[SOURCE_NAMES.index(name)] for name in names)


def arrow_schema(names: Sequence[str] = SOURCE_NAMES) -> Any:
    """Return the columns as Arrow's; Spark compares them strictly, nullability included."""
    return arrow.arrow_schema(chosen(names))
