"""The entries of keep-alive runs and restores in the log of a cluster, as such runs write them before they commit."""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow_kafka_groups.ledger.records import ChangeEntry, log_change
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.paths import new_id
from tests.fakes.groups import CLUSTER_ID


def want(
    layout: Layout,
    *groups: str,
    at: datetime,
    lasts: timedelta = timedelta(0),
    what: str = "keep-alive",
    cluster_id: str | None = CLUSTER_ID,
) -> None:
    """Let a run want groups to stay."""
    entry = ChangeEntry(at=at, until=at + lasts, what=what, folder=layout.cluster, run_id=new_id(at), groups=groups)
    log_change(layout, cluster_id, entry)
