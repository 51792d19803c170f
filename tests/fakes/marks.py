"""The marks of groups that wait for a notice, as decisions read them."""

from __future__ import annotations

from airflow_kafka_groups.judge.policy.notice import Notice
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.storage.layout import Layout, StoragePath


def marks_in(base: StoragePath, kafka_cluster_id: str | None) -> dict[str, Notice]:
    """Return the marks, whichever connection asks."""
    return Ledger(Layout(base, "any"), kafka_cluster_id).notices()
