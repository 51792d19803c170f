"""The folders that the connections to one cluster have in a storage, and what time it is by the snapshots in them.

A connection that only restores or keeps alive, or that has another name since yesterday, has no snapshots in its own
folder, and a worker's clock may be behind those of the clean-up.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime

from airflow_kafka_groups.contracts.ids import time_of
from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.maintenance.keep_alive.records import may_be_of, other_folders
from airflow_kafka_groups.maintenance.snapshot.reader import snapshot_ids
from airflow_kafka_groups.maintenance.storage import Layout

log = logging.getLogger(__name__)


def folders_with_snapshots(layout: Layout, kafka_cluster_id: str | None) -> Iterator[Layout]:
    """Yield the other folders of the storage whose newest snapshot may be of the same cluster.

    :param kafka_cluster_id: the id that the brokers report; ``None`` yields none.

    Raises ``StorageError``.
    """
    for other, _ in other_folders(layout) if kafka_cluster_id else ():
        if snapshot_ids(other) and may_be_of(other, kafka_cluster_id):
            yield other


def latest_known_time(layout: Layout, now: datetime, kafka_cluster_id: str | None) -> datetime:
    """Return the time of day, or that of the cluster's newest snapshot where this clock is behind it.

    A clean-up compares the times of snapshots with those of keep-alive runs and restores: a clock that is behind must
    not make one look older than it is. Another folder that cannot be read ends no restore.

    :param now: the time of day by this worker's clock.
    :param kafka_cluster_id: the id that the brokers report; ``None``: only this folder's snapshots count.

    Raises ``StorageError``.
    """
    known = snapshot_ids(layout)[-1:]
    try:
        for other in folders_with_snapshots(layout, kafka_cluster_id):
            known += snapshot_ids(other)[-1:]
    except StorageError as error:
        log.warning("Whether there are later snapshots in other folders is not known: %s", error)
    latest = max(map(time_of, known), default=now)
    if latest > now:
        log.warning(
            "The clock says %s, and there is a snapshot of %s: synchronize this machine's clock (NTP)", now, latest
        )
    return max(now, latest)
