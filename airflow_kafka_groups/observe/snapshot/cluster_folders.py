"""The folders that the connections to one cluster have in a storage, and what time it is by the snapshots in them.

Several are listed at once: a storage may have the folders of hundreds of clusters, each with thousands of files.

A connection that only restores or keeps alive, or that has another name since yesterday, has no snapshots in its own
folder, and a worker's clock may be behind those of the clean-up.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from datetime import datetime

from airflow_kafka_groups.exceptions import SnapshotError, StorageError
from airflow_kafka_groups.observe.snapshot.reader import load_manifest, snapshot_ids
from airflow_kafka_groups.storage.access import raised_by, unless_warned
from airflow_kafka_groups.storage.file_storage import FILES, read_few
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.paths import is_cluster_name, time_of

log = logging.getLogger(__name__)

_NOT_KNOWN = "Whether there are later snapshots in other folders is not known: %s"
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


def latest_known_time(layout: Layout, now: datetime, kafka_cluster_id: str | None) -> datetime:
    """Return the time of day, or that of the cluster's newest snapshot where this clock is behind it.

    A clean-up compares the times of snapshots with those of keep-alive runs and restores: a clock that is behind must
    not make one look older than it is. Another folder that cannot be read ends no restore.

    :param now: the time of day by this worker's clock.
    :param kafka_cluster_id: the id that the brokers report; ``None``: only this folder's snapshots count.

    Raises ``StorageError``.
    """
    known = snapshot_ids(layout)[-1:]
    for _, ids in folders_with_snapshots(layout, kafka_cluster_id, _NOT_KNOWN):
        known += ids[-1:]
    latest = max(map(time_of, known), default=now)
    if latest > now:
        log.warning(
            "The clock says %s, and there is a snapshot of %s: synchronize this machine's clock (NTP)", now, latest
        )
    return max(now, latest)
