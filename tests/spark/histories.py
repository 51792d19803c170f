"""Write histories of groups down in few words: what was seen in which hour, and what should be made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from airflow_kafka_groups.spark.frames import SNAPSHOT_SCHEMA
from airflow_kafka_groups.spark.ledger.snapshots import Extent
from airflow_kafka_groups.spark.staleness.observations import observations
from airflow_kafka_groups.spark.staleness.policy import StalenessPolicy
from airflow_kafka_groups.spark.staleness.transforms import judge, replay

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = 3600.0
SnapshotRow = dict[str, Any]
Committed = int | tuple[int, int | None, str | None]
"""An offset, or (offset, leader epoch, metadata)."""


def hour(number: float) -> datetime:
    return START + timedelta(hours=number)


def snapshot_id(number: float) -> str:
    return f"{hour(number):%Y%m%dT%H%M%SZ}-0123abcd"


def seen(
    number: float,
    *,
    group: str = "g",
    at: datetime | None = None,
    offsets: Mapping[tuple[str, int], Committed] | None = None,
    log_end: int | None = 100,
    ends: Mapping[tuple[str, int], tuple[int | None, int | None]] | None = None,
    **fields: Any,
) -> list[SnapshotRow]:
    """Return the rows of one group in the snapshot of an hour; a group with offsets 10 in t[0], Empty, by default.

    Log start and end are 0 and ``log_end``, or those of ``ends``.
    """
    row: SnapshotRow = {field.name: None for field in SNAPSHOT_SCHEMA}
    row |= {"cluster": "c", "run_id": snapshot_id(number), "observed_at": at or hour(number), "group_id": group}
    row |= {"group_type": "classic", "protocol_type": "consumer", "state": "Empty", "members": 0, "coordinator": 1}
    row |= fields
    rows = []
    for (topic, partition), committed in ({("t", 0): 10} if offsets is None else offsets).items():
        offset, epoch, metadata = committed if isinstance(committed, tuple) else (committed, None, "")
        log_start, end = (ends or {}).get((topic, partition), (0, log_end))
        at_partition = {"topic": topic, "partition": partition, "log_start": log_start, "log_end": end}
        rows.append(row | at_partition | {"committed_offset": offset, "leader_epoch": epoch, "metadata": metadata})
    return rows or [row]


def frame(spark: SparkSession, rows: Sequence[SnapshotRow]) -> DataFrame:
    names = SNAPSHOT_SCHEMA.names
    return spark.createDataFrame([tuple(row[name] for name in names) for row in rows], SNAPSHOT_SCHEMA)


def verdicts(
    spark: SparkSession,
    history: Sequence[Sequence[SnapshotRow]],
    *,
    policy: StalenessPolicy | None = None,
    retention_minutes: int = 0,
    **given: Any,
) -> DataFrame:
    """Judge a history by a policy, by default an idle time of two hours; ``given`` is as for ``state``."""
    rules = policy or StalenessPolicy(min_idle_seconds=2 * HOUR)
    return judge(state(reduced(spark, history), history, policy=rules, **given), rules, retention_minutes)


def reduced(spark: SparkSession, history: Sequence[Sequence[SnapshotRow]]) -> DataFrame:
    """Reduce a history to observations, once: a judgement reads them two to five times, as the job does from files."""
    return observations(frame(spark, flat(history))).localCheckpoint()


def state(
    observed: DataFrame,
    history: Sequence[Sequence[SnapshotRow]],
    *,
    policy: StalenessPolicy,
    snapshots: Sequence[float] | None = None,
    incomplete: Sequence[float] = (),
    selected: bool = False,
) -> DataFrame:
    """Replay a history; its snapshots are those of the rows, or of the hours named (some may have no rows).

    :param observed: the history's observations.
    :param selected: leave out the observations that decide nothing, as in a long history.
    """
    partly = [snapshot_id(number) for number in incomplete]
    found = {row["run_id"] for row in flat(history)}
    ids = [snapshot_id(number) for number in snapshots or ()] or sorted(found - {*partly})

    def read(snapshot_ids: Sequence[str]) -> DataFrame:
        return observed.where(F.col("run_id").isin(*snapshot_ids))

    if not selected:
        return replay(read, policy, ids, partly)
    extents = {name: extent([row for row in flat(history) if row["run_id"] == name]) for name in (*ids, *partly)}
    return replay(read, policy, ids, partly, extents)


def flat(history: Sequence[Sequence[SnapshotRow]]) -> list[SnapshotRow]:
    return [row for observation in history for row in observation]


def extent(rows: Sequence[SnapshotRow]) -> Extent:
    """Return what the manifest of a snapshot's observations says of their times."""
    times = sorted(row["observed_at"] for row in rows)
    if not times:
        return Extent()
    return Extent(groups=len(times), oldest=times[0].isoformat(), newest=times[-1].isoformat())


def expect(actual: DataFrame | Sequence[Row], *expected: Mapping[str, Any]) -> None:
    """Compare the columns that are named in the expected rows, which must be all rows there are."""
    names = list(expected[0])
    rows = actual.select(*names).collect() if isinstance(actual, DataFrame) else actual
    wanted = [Row(**{name: _as_collected(row[name]) for name in names}) for row in expected]
    assertDataFrameEqual([Row(**{name: row[name] for name in names}) for row in rows], wanted)


def _as_collected(value: Any) -> Any:
    """Return a time as Spark hands it to Python: local and without a zone."""
    return value.astimezone().replace(tzinfo=None) if isinstance(value, datetime) else value
