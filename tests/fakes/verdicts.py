"""Verdicts without a Spark job."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import pyarrow as pa

from airflow_kafka_groups.contracts.arrow_schema import unchecked_schema
from airflow_kafka_groups.contracts.columns import VERDICT_COLUMNS
from airflow_kafka_groups.maintenance.plan.verdicts import JudgedBy, Verdict, Verdicts


def verdicts_of(verdicts: Iterable[Verdict], judged_by: JudgedBy | None = None) -> Verdicts:
    """Make the columns that the job would have written."""
    rows = []
    for verdict in verdicts:
        row = {column.name: getattr(verdict, column.name, None) for column in VERDICT_COLUMNS}
        for name, value in (verdict.forecast or {}).items():
            row[name] = datetime.fromisoformat(value) if isinstance(value, str) else value
        row["idle_seconds"] = verdict.idle_seconds
        rows.append(row)
    schema = unchecked_schema(VERDICT_COLUMNS)
    return Verdicts(pa.Table.from_pylist(rows, schema=schema), judged_by)
