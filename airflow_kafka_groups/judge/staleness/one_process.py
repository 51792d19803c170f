"""The judgement of a cluster in one process, by threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import pyarrow as pa

from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.judge.staleness.judging import VerdictCounts, judge
from airflow_kafka_groups.judge.staleness.lives import lives_of
from airflow_kafka_groups.judge.staleness.observation_store import (
    DamagedObservationsError,
    ObservationFile,
    ObservationStore,
    create,
    from_file,
    of_snapshot,
    to_file,
)
from airflow_kafka_groups.judge.staleness.observations import reduced
from airflow_kafka_groups.judge.staleness.policy import StalenessPolicy
from airflow_kafka_groups.judge.workers import Workers
from airflow_kafka_groups.observe.history.snapshot_rows import stored_rows
from airflow_kafka_groups.observe.history.snapshots import rows_of
from airflow_kafka_groups.shown import first_line
from airflow_kafka_groups.storage.access import raised_by
from airflow_kafka_groups.storage.job_outputs import ReplacedFolder
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from airflow_kafka_groups.storage.schemas import VERDICT_COLUMNS, arrow_schema

Made = list[tuple[ObservationFile, bytes]]


class OneProcess:
    """The runner that judges in this process.

    :param workers: its threads.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    def reduce(self, store: ObservationStore) -> None:
        """Reduce the snapshots that have no observations, and store these, each as soon as they are made.

        Raises ``SnapshotError`` for a snapshot whose rows do not match its manifest, and ``StorageError``.
        """
        _reduce(store, self._workers, store.missing())

    def judge(
        self, store: ObservationStore, policy: StalenessPolicy, retention: int, output: str
    ) -> tuple[VerdictCounts, list[str]]:
        """Judge the groups, and write their verdicts in place of what a folder has.

        :param retention: the brokers' ``offsets.retention.minutes``; 0: not known.

        Returns the counts of the verdicts and the names of the files. Raises as ``reduce`` does, and ``JobError`` if
        another job wrote there, too.
        """
        *names, judged = (manifest.snapshot_id for manifest in store.history.read)
        incomplete = {*store.history.incomplete_ids}
        (newest,) = _tables(store, self._workers, [judged])
        earlier = zip((name not in incomplete for name in names), _tables(store, self._workers, names), strict=True)
        lives, counts = lives_of(newest, earlier, policy), VerdictCounts()

        def verdicts() -> Iterator[pa.Table]:
            for part in lives.judged():
                table = judge(part, policy, retention)
                for verdict, lag in zip(table["verdict"].to_pylist(), table["lag"].to_pylist(), strict=True):
                    counts.add(verdict, 1, lag or 0)
                yield table

        folder = ReplacedFolder(store.storage, output)
        folder.write(arrow_schema(VERDICT_COLUMNS), verdicts())
        return counts, folder.verify("verdicts", "judged")


def _reduce(store: ObservationStore, workers: Workers, missing: Iterable[SnapshotManifest]) -> None:
    """Reduce snapshots.

    What is written to a disk is written by the caller's thread, while others reduce the next snapshots: more that write
    only wait for each other. Elsewhere each thread writes.
    """

    def made(manifest: SnapshotManifest) -> Callable[[], None]:
        return partial(_publish, store, manifest, _reduced(store, manifest))

    if store.storage.is_local:
        for _, publish in workers.each(made, missing):
            publish()
    else:
        for _ in workers.each(lambda manifest: made(manifest)(), missing):
            pass


def _reduced(store: ObservationStore, manifest: SnapshotManifest) -> Made:
    found, name = list[pa.Table](), manifest.snapshot_id
    try:
        for file, path in zip(manifest.files, rows_of(store.history, manifest), strict=True):
            found.append(reduced(stored_rows(store.storage, name, file, path), name))
        of_snapshot(name, found)
        return [to_file(table) for table in found if table.num_rows]
    except MemoryError as exc:
        raise StorageError(f"there is no memory left for the rows of snapshot {name}: give this process more") from exc


def _publish(store: ObservationStore, manifest: SnapshotManifest, made: Made) -> None:
    contents = dict(made)
    store.publish(manifest, [*contents], lambda file, path: create(store.storage, path, contents[file]))


def _tables(store: ObservationStore, workers: Workers, snapshot_ids: Iterable[str]) -> Iterator[pa.Table]:
    """Return the observations of snapshots, in their order, with the columns that decide, or all of the judged one.

    Those whose bytes are not as they were written are made again.
    """
    for name, table in workers.each(partial(_read, store), snapshot_ids):
        found, damaged = table, 0
        while found is None:
            store.require_readable(damaged)
            _reduce(store, workers, [store.discard(name)])
            found, damaged = _read(store, name), damaged + 1
        yield found


def _read(store: ObservationStore, snapshot_id: str) -> pa.Table | None:
    """Return the observations of a snapshot, ``None`` if they are not as they were written."""
    stored, is_judged = store.stored[snapshot_id], snapshot_id == store.history.judged.snapshot_id
    parts = []
    for file, path in zip(stored.files, store.paths_of(stored), strict=True):
        try:
            content = store.storage.read_bytes(path)
            parts.append(from_file(snapshot_id, file, content, everything=is_judged))
        except (StorageError, MemoryError, DamagedObservationsError) as exc:
            if isinstance(exc, MemoryError) or isinstance(raised_by(exc), MemoryError):  # they may be sound
                raise StorageError(f"{path} cannot be read: {first_line(exc)}") from exc
            return None
    return of_snapshot(snapshot_id, parts)
