"""The judgement of a cluster: its groups' lives, from the observations on storage, and verdicts, written there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from airflow_kafka_groups.judge.staleness.lives import Lives
from airflow_kafka_groups.judge.staleness.observation_manifest import ObservationManifest
from airflow_kafka_groups.judge.staleness.observation_store import ObservationStore
from airflow_kafka_groups.judge.staleness.policy import StalenessPolicy
from airflow_kafka_groups.judge.staleness.reduction import Reduction
from airflow_kafka_groups.judge.verdict_names import VerdictName
from airflow_kafka_groups.observe.history.snapshots import History
from airflow_kafka_groups.storage.arrow_schema import arrow_schema
from airflow_kafka_groups.storage.arrow_values import column
from airflow_kafka_groups.storage.columns import VERDICT_COLUMNS
from airflow_kafka_groups.storage.ids import parse_time
from airflow_kafka_groups.storage.replaced_folder import ReplacedFolder
from airflow_kafka_groups.storage.storage import Storage
from airflow_kafka_groups.storage.workers import Workers

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
