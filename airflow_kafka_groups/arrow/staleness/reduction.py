"""Snapshots' files, reduced where they are read, in threads: each file is one piece of work.

Its observations are twenty times smaller than its rows. ``spark.staleness`` reduces many rows in Spark's tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from airflow_kafka_groups.arrow.errors import StorageError
from airflow_kafka_groups.arrow.files.storage import Storage
from airflow_kafka_groups.arrow.ledger.snapshot_rows import file_parts, require_all
from airflow_kafka_groups.arrow.ledger.snapshots import History, rows_of
from airflow_kafka_groups.arrow.staleness.observations import reduced
from airflow_kafka_groups.arrow.workers import Workers
from airflow_kafka_groups.contracts.manifest import SnapshotManifest


class Reduction:
    """The reduction of a history's snapshots.

    :param storage: that of the history's folder.
    :param workers: the threads.
    """

    def __init__(self, storage: Storage, history: History, workers: Workers) -> None:
        self._storage, self._history, self._workers = storage, history, workers

    def of(self, manifests: Sequence[SnapshotManifest]) -> Iterator[tuple[SnapshotManifest, pa.Table]]:
        """Return the observations of snapshots, in their order.

        Raises ``SnapshotError`` for one whose rows do not match its manifest, and ``StorageError``.
        """
        for manifest, table in self._tables(manifests):
            found = (pc.sum(table[name], min_count=0).as_py() for name in ("rows", "invalid"))
            require_all(manifest, *found)
            yield manifest, table

    def _tables(self, manifests: Sequence[SnapshotManifest]) -> Iterable[tuple[SnapshotManifest, pa.Table]]:
        return self._workers.each(self._reduced, manifests)

    def _reduced(self, manifest: SnapshotManifest) -> pa.Table:
        files = rows_of(self._history, manifest)
        parts = (part for path in files for part in file_parts(self._storage, manifest, path))
        try:
            return reduced(parts, manifest.snapshot_id)
        except MemoryError as exc:
            problem = f"the driver has no memory left for the rows of snapshot {manifest.snapshot_id}: give it more"
            raise StorageError(problem) from exc
