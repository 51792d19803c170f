"""What every plan of deletions has: who made it when, for which cluster, and the digest that fixes it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from airflow_kafka_groups.maintenance.cluster_view import ClusterView
from airflow_kafka_groups.maintenance.plan.policy import PlanPolicy


class SealedPlan(Protocol):
    """A plan of groups to delete, or of topics of groups to prune."""

    @property
    def plan_id(self) -> str:
        """Its id."""

    @property
    def cluster(self) -> str:
        """The folder of the cluster."""

    @property
    def kafka_cluster_id(self) -> str:
        """The id that the brokers report."""

    @property
    def created_at(self) -> datetime:
        """When it was made."""

    @property
    def expires_at(self) -> datetime:
        """When it becomes unusable."""

    @property
    def policy(self) -> PlanPolicy:
        """The limits that it was made within."""

    @property
    def view(self) -> ClusterView | None:
        """What the snapshot's connection saw of the cluster."""

    @property
    def groups(self) -> Sequence[Any]:
        """What it deletes."""

    @property
    def group_count(self) -> int:
        """The number of groups that it touches."""

    @property
    def group_ids(self) -> Sequence[str]:
        """The names of what it deletes, as the journal has them."""

    @property
    def rules_to_approve(self) -> list[str]:
        """The names of the rules that demand an approval."""

    @property
    def digest(self) -> str:
        """The digest of everything in it."""
