"""The folders that the connections to one cluster have in a storage, and what time it is by the snapshots in them.

A connection that only restores or keeps alive, or that has another name since yesterday, has no snapshots in its own
folder, and a worker's clock may be behind those of the clean-up.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime

from airflow_kafka_groups.contracts.ids import time_of
from airflow_kafka_groups.maintenance.keep_alive.records import may_be_of, other_folders
from airflow_kafka_groups.maintenance.snapshot.reader import snapshot_ids
from airflow_kafka_groups.maintenance.storage import Layout
from airflow_kafka_groups.maintenance.storage_access import unless_warned

log = logging.getLogger(__name__)

_NOT_KNOWN = "Whether there are later snapshots in other folders is not known: %s"


def folders_with_snapshots(
    layout: Layout, kafka_cluster_id: str | None, warning: str = ""
) -> Iterator[tuple[Layout, list[str]]]:
    """Yield the other folders of the storage whose newest snapshot may be of the same cluster, with their snapshots.

    :param kafka_cluster_id: the id that the brokers report; ``None`` yields none.
    :param warning: as of ``unless_warned``, for a folder that cannot be read, which is left out. Default: it raises.

    Raises ``StorageError``.
    """
    for other, _ in other_folders(layout, warning=warning) if kafka_cluster_id else ():
        with unless_warned(warning):
            if (ids := snapshot_ids(other)) and may_be_of(other, kafka_cluster_id, ids):
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
