"""What a snapshot means for the judgement by another one."""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow_kafka_groups.observe.cluster_view import ClusterView, recorded_view
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from airflow_kafka_groups.storage.paths import time_of

SLOWEST = timedelta(hours=6)
"""A snapshot may take so long: those that began in this time before another one may have ended after it."""
PLANNED_WITHIN = timedelta(days=31)
"""For so long after a snapshot, a plan may be made by it: prunings of other folders keep theirs, and a day longer."""


def is_news(manifest: SnapshotManifest, snapshot_id: str, idle_since: datetime | None) -> bool:
    """Return whether the judgement by another snapshot may not know what a later one shows of a group.

    :param snapshot_id: the other one.
    :param idle_since: since when the group is idle by the plan: by that judgement, or from a restore, of which the
        judgement knows as little; ``None`` if it is not known.
    """
    return manifest.observed_at >= time_of(snapshot_id) or idle_since is None or idle_since < manifest.observed_at


def may_see_less(reader: SnapshotReader, layout: Layout, view: ClusterView | None) -> bool:
    """Return whether a snapshot in another folder is another user's: brokers hide from one what it may not describe.

    So what it lacks may be there: groups, and, where it does not see all topics, offsets.

    :param layout: the folder of the judged snapshot.
    :param view: what the judged snapshot's connection saw of the cluster; ``None`` if it is not known.

    Raises ``PlanError`` for a damaged view.
    """
    if reader.layout == layout or view is None:
        return False
    other = recorded_view(reader.manifest.view, f"snapshot {reader.manifest.snapshot_id}")
    return other is not None and other.connection.identity != view.connection.identity
