"""Write histories of groups down in few words: what was seen in which hour, and what should be made of it."""

import io
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.judge.staleness import observations
from airflow_kafka_groups.judge.staleness.buckets import JUDGED, Judgement, Part, cut, judged_buckets, packed
from airflow_kafka_groups.judge.staleness.judging import judge
from airflow_kafka_groups.judge.staleness.lives import READ, Lives, LivesPart
from airflow_kafka_groups.judge.staleness.policy import StalenessPolicy
from airflow_kafka_groups.observe.history.snapshot_rows import rows_in
from airflow_kafka_groups.storage.manifest import SnapshotFile
from airflow_kafka_groups.storage.schemas import (
    OBSERVATION_COLUMNS,
    SNAPSHOT_COLUMNS,
    arrow_schema,
    to_rows,
    unchecked_schema,
)

# Every column may be null here: a test writes rows that lack a required one.
ARROW_SCHEMA = unchecked_schema(SNAPSHOT_COLUMNS)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
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
    row: SnapshotRow = {field.name: None for field in ARROW_SCHEMA}
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


def reduce(content: bytes, name: str) -> pa.Table:
    """Return the observations of a snapshot's file."""
    rows = pq.read_metadata(pa.BufferReader(content)).num_rows
    file = SnapshotFile("part-00000.parquet", rows, sha256(content).hexdigest())
    return observations.reduced(rows_in(file, name, content), name)


def reduced(history: Sequence[Sequence[SnapshotRow]]) -> dict[str, pa.Table]:
    """Reduce a history to the observations of each snapshot, as the job does from files."""
    by_snapshot: dict[str, list[SnapshotRow]] = {}
    for row in flat(history):
        by_snapshot.setdefault(row["run_id"], []).append(row)
    return {name: reduce(parquet(rows), name) for name, rows in by_snapshot.items()}


def parquet(rows: Sequence[SnapshotRow], schema: pa.Schema = ARROW_SCHEMA, row_group_size: int | None = None) -> bytes:
    """Return rows as a file of a snapshot."""
    buffer = io.BytesIO()
    table = pa.Table.from_pylist(list(rows), schema)
    pq.write_table(table, buffer, compression="zstd", write_page_checksum=True, row_group_size=row_group_size)
    return buffer.getvalue()


def verdicts(
    history: Sequence[Sequence[SnapshotRow]],
    *,
    policy: StalenessPolicy | None = None,
    retention_minutes: int = 0,
    **given: Any,
) -> list[dict[str, Any]]:
    """Judge a history by a policy, by default an idle time of two hours; ``given`` is as for ``lives``."""
    rules = policy or StalenessPolicy(min_idle_seconds=2 * HOUR)
    return judged(lives(reduced(history), policy=rules, **given), rules, retention_minutes)


def judged(found: LivesPart, policy: StalenessPolicy, retention_minutes: int = 0) -> list[dict[str, Any]]:
    """Judge lives; the verdicts have times as Python's."""
    return to_rows(judge(found, policy, retention_minutes))


def judged_in_buckets(
    observed: Mapping[str, pa.Table], judgement: Judgement, buckets: int, files: int
) -> list[dict[str, Any]]:
    """Judge as Spark's tasks do, sorted by group; the verdicts have times as Python's.

    :param files: how many files each snapshot has.
    """
    parts, empty = list[Part](), arrow_schema(OBSERVATION_COLUMNS).empty_table()
    for place, (name, _) in enumerate(judgement.snapshots):
        table = observed.get(name, empty)
        size, is_judged = -(-table.num_rows // files), place == len(judgement.snapshots) - 1
        for file in (table.slice(number * size, size) for number in range(files)):
            found = file if is_judged else file.select(READ)
            cuts = enumerate(cut(found, buckets))
            parts += [(bucket, JUDGED if is_judged else place, packed(part)) for bucket, part in cuts if part.num_rows]
    rows = [row for part in judged_buckets(judgement, sorted(parts, key=itemgetter(0, 1))) for row in to_rows(part)]
    return sorted(rows, key=itemgetter("group_id"))


def lives(
    observed: Mapping[str, pa.Table],
    *,
    policy: StalenessPolicy,
    snapshots: Sequence[float] | None = None,
    incomplete: Sequence[float] = (),
) -> LivesPart:
    """Follow the lives of groups; the snapshots are those observed, or of the hours named (some may have no rows).

    :param observed: the history's observations.
    """
    partly = {snapshot_id(number) for number in incomplete}
    ids = {snapshot_id(number) for number in snapshots or ()} or observed.keys() - partly
    empty = arrow_schema(OBSERVATION_COLUMNS).empty_table()
    followed = Lives(observed.get(max(ids), empty), policy)
    for name in sorted(ids | partly):
        table = observed.get(name, empty)
        if name in ids:
            followed.add(table)
        elif name < max(ids):
            followed.add_incomplete(table)
    (part,) = followed.judged()
    return part


def flat(history: Sequence[Sequence[SnapshotRow]]) -> list[SnapshotRow]:
    return [row for observation in history for row in observation]


def expect(actual: Sequence[Mapping[str, Any]], *expected: Mapping[str, Any]) -> None:
    """Compare the columns that are named in the expected rows, which must be all rows there are, by group."""
    names = list(expected[0])
    found = [{name: row[name] for name in names} for row in actual]
    wanted = [{name: _near(row[name]) for name in names} for row in expected]
    if "group_id" in names:
        found.sort(key=itemgetter("group_id"))
        wanted.sort(key=itemgetter("group_id"))
    assert found == wanted


def _near(value: Any) -> Any:
    return pytest.approx(value) if isinstance(value, float) else value
