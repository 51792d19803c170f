"""Snapshots' files, reduced where they are read, in threads: each file is one piece of work.

Its observations are twenty times smaller than its rows. ``spark.staleness`` reduces many rows in Spark's tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.judge.staleness.observations import reduced
from airflow_kafka_groups.observe.history.snapshot_rows import file_parts, require_all
from airflow_kafka_groups.observe.history.snapshots import History, rows_of
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from airflow_kafka_groups.storage.storage import Storage
from airflow_kafka_groups.storage.workers import Workers

R = TypeVar("R")


class Reduction:
    """The reduction of a history's snapshots.

    :param storage: that of the history's folder.
    :param workers: the threads.
    """

    def __init__(self, storage: Storage, history: History, workers: Workers) -> None:
        self._storage, self._history, self._workers = storage, history, workers

    def of(
        self, manifests: Sequence[SnapshotManifest], keep: Callable[[SnapshotManifest, pa.Table], R]
    ) -> Iterator[tuple[str, R]]:
        """Return the ids of snapshots, in their order, with what a function returns for their observations.

        :param keep: the function. What it writes to a disk is written by the caller's thread, while others reduce the
            next snapshots: more that write only wait for each other. Elsewhere each thread calls it.

        Raises ``SnapshotError`` for one whose rows do not match its manifest, ``StorageError``, and what it raises.
        """

        def made(each: tuple[SnapshotManifest, Callable[[], pa.Table]]) -> Callable[[], R]:
            manifest, reduce = each
            table = reduce()
            found = (pc.sum(table[name], min_count=0).as_py() for name in ("rows", "invalid"))
            require_all(manifest, *found)
            return partial(keep, manifest, table)

        if self._storage.is_local:
            for (manifest, _), kept in self._workers.each(made, self._tables(manifests)):
                yield manifest.snapshot_id, kept()
        else:
            for (manifest, _), result in self._workers.each(lambda each: made(each)(), self._tables(manifests)):
                yield manifest.snapshot_id, result

    def _tables(
        self, manifests: Sequence[SnapshotManifest]
    ) -> Iterable[tuple[SnapshotManifest, Callable[[], pa.Table]]]:
        """Return what makes the observations of each snapshot."""
        return ((manifest, partial(self._reduced, manifest)) for manifest in manifests)

    def _reduced(self, manifest: SnapshotManifest) -> pa.Table:
        files = rows_of(self._history, manifest)
        parts = (part for path in files for part in file_parts(self._storage, manifest, path))
        try:
            return reduced(parts, manifest.snapshot_id)
        except MemoryError as exc:
            problem = f"the driver has no memory left for the rows of snapshot {manifest.snapshot_id}: give it more"
            raise StorageError(problem) from exc
