"""The judgement of a cluster: a verdict on each group with its reason and forecasts, from the stored observations.

The first rule of docs/formats.md that matches decides, so the order is essential for safety: groups that cannot be
read, belong to another program or are in use are recognized before anything is measured, and only a group that no rule
keeps can be stale. Forecasts, which decide nothing, are derived in docs/spark/judge-staleness.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from airflow_kafka_groups.judge.staleness.lives import Life, Lives
from airflow_kafka_groups.judge.staleness.observation_store import ObservationManifest, ObservationStore
from airflow_kafka_groups.judge.staleness.observations import Reduction
from airflow_kafka_groups.judge.staleness.policy import StalenessPolicy
from airflow_kafka_groups.judge.verdict_names import VerdictName
from airflow_kafka_groups.judge.workers import Workers
from airflow_kafka_groups.kafka.models import ELIGIBLE_PROTOCOL_TYPES, JUDGED_TYPES, GroupState
from airflow_kafka_groups.observe.history.snapshots import History
from airflow_kafka_groups.storage.arrow_values import column
from airflow_kafka_groups.storage.file_storage import Storage
from airflow_kafka_groups.storage.job_outputs import ReplacedFolder
from airflow_kafka_groups.storage.paths import parse_time
from airflow_kafka_groups.storage.schemas import VERDICT_COLUMNS, arrow_schema

SHORTEST_WINDOW_MICROS = 3_600_000_000
"""The shortest time for a trend: in less than an hour, a burst would look like a trend."""

_DAY_MICROS = 86_400_000_000
_LONGEST_MICROS = 100 * 366 * _DAY_MICROS


def forecasts(life: Life, idle_since: int | None, offsets_retention_minutes: int) -> dict[str, Any]:
    """Return four columns of the verdict by name; times in microseconds since 1970.

    :param offsets_retention_minutes: the brokers' ``offsets.retention.minutes``; without an expiry if it is 0 (unknown)
        or beyond 100 years (unlimited).
    """
    trend, since = _trend(life)
    retention = offsets_retention_minutes * 60_000_000
    expires = idle_since is not None and life.partitions > 0 and 0 < retention <= _LONGEST_MICROS
    return {
        "lag_trend": trend,
        "lag_trend_since": since,
        "offsets_expire_by": (idle_since or 0) + retention if expires else None,
        "data_loss_not_before": _data_loss(life),
    }


def _trend(life: Life) -> tuple[float | None, int | None]:
    """Return by how many messages a day the lag grows, and since when."""
    for at, lag in ((life.idle_lag_at, life.idle_lag), (life.life_lag_at, life.life_lag)):
        if life.lag is not None and (elapsed := _elapsed(life, at)):
            return float(life.lag - lag) * _DAY_MICROS / elapsed, at
    return None, None


def _data_loss(life: Life) -> int | None:
    """Return when the log's start passes the nearest offset at the pace of the idle time."""
    elapsed = _elapsed(life, life.idle_lag_at)
    if not elapsed or life.log_start is None or life.nearest is None:
        return None
    moved = life.log_start - life.idle_log_start
    if moved <= 0 or life.nearest < 0:
        return None
    left = float(life.nearest) * elapsed / float(moved)
    return life.observed_at + int(left) if left <= _LONGEST_MICROS else None


def _elapsed(life: Life, since: int | None) -> float | None:
    """Return the time from earlier known log ends to the newest.

    ``None`` if it is too short for a trend, or if one of both is not known: a group without commits has none.
    """
    ends_known = life.error is None and life.partitions > 0 and life.lag_unknown == 0
    if since is None or not ends_known or life.lag is None or life.log_start is None:
        return None
    elapsed = life.observed_at - since
    return float(elapsed) if elapsed >= SHORTEST_WINDOW_MICROS else None


_UNITS = ((120, 1, "s"), (7_200, 60, "min"), (172_800, 3_600, "h"))


def judge(life: Life, policy: StalenessPolicy, offsets_retention_minutes: int = 0) -> dict[str, Any]:
    """Return the verdict on a group as a row of ``VERDICT_COLUMNS``, with forecasts that decide nothing.

    Times are in microseconds since 1970.

    :param offsets_retention_minutes: the brokers' ``offsets.retention.minutes``. Default 0, unknown.
    """
    empty = life.empty_since
    since = None if empty is None else max(empty, life.last_moved_at or empty, life.last_record_at or empty)
    idle = None if since is None else max(life.observed_at - since, 0)
    verdict, reason = verdict_and_reason(life, idle, policy)
    return {
        **life._asdict(),
        "idle_since": since,
        "idle_seconds": None if idle is None else idle / 1_000_000,
        **forecasts(life, since, offsets_retention_minutes),
        "verdict": verdict,
        "reason": reason,
    }


def verdict_and_reason(life: Life, idle: int | None, policy: StalenessPolicy) -> tuple[VerdictName, str]:
    """Judge a group.

    :param idle: for how long it has been idle, in microseconds; ``None`` for one that is not quiet.
    """
    enough = round(policy.min_idle_seconds * 1_000_000)
    moved, came = (
        None if at is None else max(life.observed_at - at, 0) for at in (life.last_moved_at, life.last_record_at)
    )
    if life.error is not None:
        return VerdictName.UNREADABLE, f"not read in full: {life.error}"
    if life.group_type not in JUDGED_TYPES:
        return VerdictName.UNTOUCHABLE, f"a {life.group_type} group keeps state of its own"
    if life.protocol_type not in ELIGIBLE_PROTOCOL_TYPES:
        reason = f"protocol type {life.protocol_type}: another program keeps its own state in this group"
        return VerdictName.UNTOUCHABLE, reason
    if life.members:
        return VerdictName.LIVE, f"it has {life.members} member(s), state {life.state}"
    if life.state != GroupState.EMPTY:
        return VerdictName.LIVE, f"its state is {life.state}, not Empty"
    if life.partitions == 0:
        return (
            VerdictName.NO_OFFSETS,
            "no committed offset is visible: a broker removes such a group by itself, so some may be hidden",
        )
    if moved is not None and moved < enough:
        return (
            VerdictName.MOVING,
            f"offsets moved {duration(moved)} ago; the policy requires {duration(enough)} without",
        )
    if came is not None and came < enough and (life.last_record_at or 0) > (life.empty_since or 0):
        return (
            VerdictName.MOVING,
            f"a member joined or left it {duration(came)} ago, by the log of commits; the policy requires "
            f"{duration(enough)} without",
        )
    for_how_long = "unknown" if idle is None else duration(idle)
    reason = (
        f"idle for {for_how_long} ({life.observations} snapshots); the policy requires {duration(enough)} and "
        f"{policy.min_observations} snapshots"
    )
    if idle is not None and idle >= enough and life.observations >= policy.min_observations:
        return VerdictName.STALE, reason
    return VerdictName.SETTLING, reason


def duration(micros: int) -> str:
    """Format a time, rounded down, so that it is never exaggerated."""
    unit, name = next(((unit, name) for below, unit, name in _UNITS if micros < below * 1_000_000), (86_400, "days"))
    return f"{micros // (unit * 100_000) / 10:.1f} {name}"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SCHEMA = arrow_schema(VERDICT_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedHistory:
    """The lives of a snapshot's groups, and what they were computed from.

    :param lives: those of the groups of the judged snapshot.
    :param groups: their number.
    :param oldest: the time of the first observation in complete snapshots (ISO 8601); ``None`` without any.
    :param newest: the time of the last one.
    :param reduced: the number of snapshots whose rows were read, because they had no observations that could be used.
    :param observed_from: when the observations of each complete snapshot begin, in microseconds since 1970, sorted.
    :param complete: the observations of the complete snapshots by id, without those of named groups.
    """

    lives: Lives
    groups: int
    oldest: str | None
    newest: str | None
    reduced: int
    observed_from: Sequence[int]
    complete: Mapping[str, ObservationManifest]
    store: ObservationStore


def judged_history(
    storage: Storage, history: History, policy: StalenessPolicy, workers: Workers, reduction: Reduction
) -> JudgedHistory:
    """Reduce the snapshots that no job has reduced yet, and follow the lives of the groups through all of them.

    :param storage: that of the history's folder.
    :param workers: what reads several files at once.
    :param reduction: what reduces the snapshots.

    Raises ``SnapshotError`` for a snapshot that cannot be used, and ``StorageError``.
    """
    store = ObservationStore(storage, history, workers, reduction)
    store.complete()
    newest = store.newest()
    lives = Lives(newest, policy)
    *names, _ = [manifest.snapshot_id for manifest in history.read]
    incomplete = {*history.incomplete_ids}
    for name, table in zip(names, store.tables(names), strict=True):
        (lives.add_incomplete if name in incomplete else lives.add)(table)
    lives.add(newest)
    every = [store.stored[name] for name in history.snapshot_ids]
    return JudgedHistory(
        lives=lives,
        groups=every[-1].groups,
        oldest=min((each.oldest for each in every if each.oldest), default=None),
        newest=max((each.newest for each in every if each.newest), default=None),
        reduced=len(store.reduced),
        observed_from=sorted((parse_time(each.oldest) - _EPOCH) // _MICROSECOND for each in every if each.oldest),
        complete={
            each.snapshot_id: store.stored[each.snapshot_id] for each in history.manifests if not each.of_named_groups
        },
        store=store,
    )


def write_verdicts(
    storage: Storage, verdicts: Iterable[Sequence[Mapping[str, Any]]], output: str
) -> tuple[dict[str, int], dict[str, int], list[str]]:
    """Write verdicts, and return the number of groups and their lag by verdict, and the names of the files.

    :param verdicts: rows of ``VERDICT_COLUMNS``, sorted by group, many at a time; each such part is a file.
    :param output: the folder, which is replaced.

    Raises ``JobError`` if the folder has other files afterwards than were written.
    """
    groups, lag = (dict.fromkeys(map(str, VerdictName), 0) for _ in range(2))

    def counted() -> Iterator[pa.Table]:
        for part in verdicts:
            for row in part:
                groups[row["verdict"]] += 1
                lag[row["verdict"]] += row["lag"] or 0
            yield pa.table([_column(part, field) for field in _SCHEMA], schema=_SCHEMA)

    folder = ReplacedFolder(storage, output)
    folder.write(_SCHEMA, counted(), rows_of_a_file=1)
    return groups, lag, folder.verify("verdicts", "judged")


def _column(rows: Sequence[Mapping[str, Any]], field: pa.Field) -> pa.Array:
    """Return a column of verdicts, whose times are microseconds."""
    stored = pa.int64() if pa.types.is_timestamp(field.type) else field.type
    return column([row.get(field.name) for row in rows], stored).cast(field.type)
