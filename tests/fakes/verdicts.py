"""Verdicts without a Spark job."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa

from airflow_kafka_groups.ledger.verdicts import JudgedBy, Verdicts
from airflow_kafka_groups.storage.schemas import VERDICT_COLUMNS, unchecked_schema


class VerdictRow(NamedTuple):
    """A row as the job writes it; ``forecast`` has the columns of the forecast that are known, as JSON."""

    group_id: str
    group_type: str
    protocol_type: str
    state: str
    members: int | None
    partitions: int
    lag: int | None
    idle_since: datetime | None
    idle_seconds: float | None
    observations: int
    observed_at: datetime
    verdict: str
    reason: str
    first_seen_at: datetime | None = None
    empty_since: datetime | None = None
    last_moved_at: datetime | None = None
    forecast: Mapping[str, Any] | None = None


def verdicts_of(verdicts: Iterable[VerdictRow], judged_by: JudgedBy | None = None) -> Verdicts:
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
