"""The forecast columns of the report, computed by the Spark job: where a group was heading when it was judged.

A column without a value is omitted, e.g. for verdicts of a job that made no forecasts.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from airflow_kafka_groups.ledger.plan_rows import PlannedGroup
from airflow_kafka_groups.report.page import part

_COLUMNS = {
    "lag_trend": "Lag a day",
    "lost": "Lost unread",
    "offsets_expire_by": "Offsets expire by",
    "data_loss_not_before": "Unread safe until",
}


def forecast_columns(groups: Sequence[PlannedGroup]) -> tuple[list[str], list[list[str]]]:
    """Return the column heads, and the cells of each group."""
    told = [name for name in _COLUMNS if any(name in (group.forecast or {}) for group in groups)]
    cells = [
        [_shown((group.forecast or {}).get(name), signed=name == "lag_trend") for name in told] for group in groups
    ]
    return [_COLUMNS[name] for name in told], cells


def lag_cell(group: PlannedGroup) -> str:
    """Return a group's lag, with "at least" if some of its log ends are unknown."""
    if group.lag is None:
        return "-"
    return f"at least {group.lag:,}" if (group.forecast or {}).get("lag_unknown") else f"{group.lag:,}"


def _shown(value: Any, *, signed: bool) -> str:
    if isinstance(value, str):
        return part("minute", datetime.fromisoformat(value).astimezone(UTC))
    if value is None:
        return "-"
    number = round(value)
    return f"{number:+,}" if signed and number else f"{number:,}"
