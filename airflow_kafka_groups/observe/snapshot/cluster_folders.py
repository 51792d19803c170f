"""The folders that the connections to one cluster have in a storage.

Several are listed at once: a storage may have the folders of hundreds of clusters, each with thousands of files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress

from airflow_kafka_groups.exceptions import SnapshotError, StorageError
from airflow_kafka_groups.observe.snapshot.reader import load_manifest, snapshot_ids
from airflow_kafka_groups.storage.access import raised_by, unless_warned
from airflow_kafka_groups.storage.file_storage import FILES, read_few
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.paths import is_cluster_name

_MOST_DAMAGED = 10


def other_folders(
    layout: Layout, without: Collection[str] = (), warning: str = ""
) -> Iterator[tuple[Layout, list[str]]]:
    """Yield the other clusters' folders of the storage, and the names in each: they may be of the same Kafka cluster.

    :param without: names of folders to leave out. Default: none.
    :param warning: as of ``unless_warned``, for what cannot be listed, which is left out. Default: it raises.

    Raises ``StorageError``.
    """
    names = list[str]()
    with unless_warned(warning):
        names = FILES.names(layout.base)
    others = [
        Layout(layout.base, name)
        for name in names
        if name != layout.cluster and name not in without and is_cluster_name(name)
    ]

    def inside(other: Layout) -> list[str] | None:
        with unless_warned(warning):
            try:
                return FILES.names(other.root)  # ``exists`` of a store may say no where it cannot tell
            except StorageError as exc:
                if not isinstance(raised_by(exc), NotADirectoryError):
                    raise
        return None

    for other, found in zip(others, read_few(inside, others), strict=True):
        if found is not None:
            yield other, found


def may_be_of(layout: Layout, kafka_cluster_id: str | None, ids: Sequence[str]) -> bool:
    """Return whether a folder's runs may be on this cluster, by its newest snapshot that is whole: in doubt they may.

    One that names no cluster is in doubt: brokers that start may not know their id yet.

    :param ids: its snapshots.
    """
    for snapshot_id in ids[: -_MOST_DAMAGED - 1 : -1]:
        with suppress(SnapshotError):
            return load_manifest(layout, snapshot_id, may_be_copied=True).kafka_cluster_id in (kafka_cluster_id, None)
    return True


def folders_with_snapshots(
    layout: Layout, kafka_cluster_id: str | None, warning: str = ""
) -> Iterator[tuple[Layout, list[str]]]:
    """Yield the other folders of the storage whose newest snapshot may be of the same cluster, with their snapshots.

    :param kafka_cluster_id: the id that the brokers report; ``None`` yields none.
    :param warning: as of ``unless_warned``, for a folder that cannot be read, which is left out. Default: it raises.

    Raises ``StorageError``.
    """

    def of_this_cluster(other: Layout) -> list[str]:
        with unless_warned(warning):
            if (ids := snapshot_ids(other)) and may_be_of(other, kafka_cluster_id, ids):
                return ids
        return []

    others = [other for other, _ in other_folders(layout, warning=warning)] if kafka_cluster_id else []
    for other, ids in zip(others, read_few(of_this_cluster, others), strict=True):
        if ids:
            yield other, ids
