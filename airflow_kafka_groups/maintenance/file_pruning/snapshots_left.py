"""The snapshots that a pruning leaves, in all folders of the storage: records of groups outlive those from before them.

Connections to the same cluster heed each other's records. A folder of another cluster, which may have had its last
snapshot years ago, keeps no record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable
from datetime import datetime

from airflow_kafka_groups.contracts.ids import time_prefix
from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.maintenance.journal.files import read_few
from airflow_kafka_groups.maintenance.keep_alive.records import other_folders
from airflow_kafka_groups.maintenance.snapshot.reader import load_manifest, snapshot_ids
from airflow_kafka_groups.maintenance.storage import Layout

_MOST_READ = 1_000
"""The most manifests of a folder that are read to know that none is of a cluster: with more, one may be."""


class SnapshotsLeft:
    """The snapshots of a storage, without those that are removed. Each folder is listed once, when it is asked for."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._own = snapshot_ids(layout)
        self._others: list[tuple[Layout, list[str]]] | None = None
        self._clusters: dict[tuple[str, str], str | None] = {}

    def remove(self, snapshot_ids: Iterable[str]) -> None:
        """Leave out snapshots of this folder that are removed, or would be."""
        gone = set(snapshot_ids)
        self._own = [id_ for id_ in self._own if id_ not in gone]

    def are_here_from(self, at: datetime) -> bool:
        """Return whether this folder has a snapshot of this time or from before."""
        return bool(_until(self._own, at))

    def are_from(self, at: datetime, clusters: Collection[str | None]) -> bool:
        """Return whether this folder, or one that may be of the same cluster, has one of this time or from before.

        :param clusters: the ids of the clusters; where one is not known, or there is none, every folder may be of it.

        Raises ``StorageError``.
        """
        if self.are_here_from(at):
            return True
        if self._others is None:
            self._others = [(other, snapshot_ids(other)) for other, _ in other_folders(self._layout)]
        known = clusters if clusters and None not in clusters else ()
        earlier = ((other, _until(ids, at)) for other, ids in self._others)
        return any(ids and self._may_be_of(other, ids, known) for other, ids in earlier)

    def _may_be_of(self, folder: Layout, ids: list[str], clusters: Collection[str | None]) -> bool:
        """Whether one of these snapshots may be of one of these clusters: a connection may have been switched."""
        if not clusters or len(ids) > _MOST_READ:
            return True
        return any(
            cluster is None or cluster in clusters for cluster in read_few(lambda id_: self._of(folder, id_), ids)
        )

    def _of(self, folder: Layout, snapshot_id: str) -> str | None:
        key = folder.cluster, snapshot_id
        if key not in self._clusters:
            try:
                self._clusters[key] = load_manifest(folder, snapshot_id, may_be_copied=True).kafka_cluster_id
            except SnapshotError:
                self._clusters[key] = None
        return self._clusters[key]


def _until(ids: list[str], at: datetime) -> list[str]:
    return ids[: bisect_right(ids, f"{time_prefix(at)}~")]
