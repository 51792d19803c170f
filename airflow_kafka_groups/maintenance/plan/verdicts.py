"""The Spark job's verdicts on a snapshot. The job is a program of its own: its rows are checked, not trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from airflow_kafka_groups.contracts.columns import FORECAST_COLUMNS, VERDICT_COLUMNS
from airflow_kafka_groups.contracts.paths import is_data_file
from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.maintenance.storage import Layout, StoragePath, read_json

_REQUIRED = [column for column in VERDICT_COLUMNS if column not in FORECAST_COLUMNS]
_KINDS: dict[str, type[int] | type[float] | type[datetime]] = {
    "int32": int,
    "int64": int,
    "double": float,
    "timestamp": datetime,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The job's verdict on one group, see docs/formats.md.

    ``forecast`` has the columns of the forecast that are known, as JSON; none if there is none.
    """

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
    empty_since: datetime | None = None
    last_moved_at: datetime | None = None
    forecast: Mapping[str, Any] | None = None


def load_verdicts(layout: Layout, snapshot_id: str) -> list[Verdict]:
    """Read all verdicts about a snapshot, sorted by group id.

    Raises ``SnapshotError`` if the job has not finished (no summary), its summary is about another snapshot, a file
    cannot be read, or a group is judged twice.
    """
    path = layout.verdict_summary(snapshot_id)
    if not path.exists():
        raise SnapshotError(f"snapshot {snapshot_id} is not judged: {path} does not exist; run the Spark job first")
    summary = read_json(path, "the summary of the Spark job", SnapshotError, formatted=False)
    for name, wanted in (("snapshot_id", snapshot_id), ("cluster", layout.cluster)):
        if summary.get(name, wanted) != wanted:
            raise SnapshotError(f"{path} does not belong to snapshot {snapshot_id} of cluster {layout.cluster!r}")
    rows: dict[str, Verdict] = {}
    for file in _parquet_files(layout.verdicts(snapshot_id)):
        for row in _read(file):
            verdict = _verdict(row, file)
            if verdict.group_id in rows:
                raise SnapshotError(f"group {verdict.group_id!r} is judged twice in {layout.verdicts(snapshot_id)}")
            rows[verdict.group_id] = verdict
    if len(rows) != summary.get("groups"):
        raise SnapshotError(
            f"{path} has {summary.get('groups')} groups, but there are verdicts of {len(rows)}: run the job again"
        )
    return [rows[group_id] for group_id in sorted(rows)]


def _parquet_files(folder: StoragePath) -> list[StoragePath]:
    if not folder.exists():
        raise SnapshotError(f"there are no verdicts in {folder}: run the Spark job first")
    files = [path for path in folder.iterdir() if is_data_file(path.name)]
    if not files:
        raise SnapshotError(f"{folder} is empty: run the Spark job again")
    return sorted(files, key=lambda path: path.name)


def _read(path: StoragePath) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as file:
            table = pq.read_table(file)
            known = [column.name for column in FORECAST_COLUMNS if column.name in table.column_names]
            rows: list[dict[str, Any]] = table.select([*(column.name for column in _REQUIRED), *known]).to_pylist()
    except KeyError as exc:
        raise SnapshotError(f"{path} lacks a column: {exc}") from exc
    except (OSError, pa.ArrowException) as exc:
        raise SnapshotError(f"{path} cannot be read: {exc}") from exc
    return rows


def _verdict(row: dict[str, Any], path: StoragePath) -> Verdict:
    idle = row["idle_seconds"]
    for column in _REQUIRED:
        if row[column.name] is None and not column.nullable:
            raise SnapshotError(f"{path}: group {row['group_id']!r} has no {column.name}")
    return Verdict(
        group_id=row["group_id"],
        group_type=row["group_type"],
        protocol_type=row["protocol_type"],
        state=row["state"],
        members=row["members"],
        partitions=row["partitions"],
        lag=row["lag"],
        empty_since=_utc(row["empty_since"]),
        last_moved_at=_utc(row["last_moved_at"]),
        idle_since=_utc(row["idle_since"]),
        idle_seconds=idle if idle is not None and math.isfinite(idle) else None,
        observations=row["observations"],
        observed_at=_utc(row["observed_at"]) or datetime.min.replace(tzinfo=UTC),
        verdict=row["verdict"],
        reason=row["reason"],
        forecast=_forecast(row),
    )


def _forecast(row: dict[str, Any]) -> dict[str, Any] | None:
    """Return what is known, as JSON. A value of another type is left out: it decides nothing."""
    found: dict[str, Any] = {}
    for name, kind, _ in FORECAST_COLUMNS:
        value = row.get(name)
        if not isinstance(value, _KINDS[kind]) or (isinstance(value, float) and not math.isfinite(value)):
            continue
        found[name] = value
        if isinstance(value, datetime):
            at = _utc(value)
            found[name] = at.isoformat() if at is not None else None
    return found or None


def _utc(value: datetime | None) -> datetime | None:
    if value is None:
        return None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
