"""A plan that deletes one group and keeps another."""

from datetime import timedelta
from typing import Any

from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.plan_rows import KeptGroup, PlannedGroup
from tests.fakes.groups import CLUSTER_ID, NOW

ID = "20260301T120000Z-0123abcd"


def plan(**changes: Any) -> DeletionPlan:
    values: dict[str, Any] = {
        "plan_id": ID,
        "cluster": "prod",
        "kafka_cluster_id": CLUSTER_ID,
        "snapshot_id": ID,
        "created_at": NOW,
        "expires_at": NOW + timedelta(days=1),
        "policy": PlanPolicy(),
        "counts": {"found": 2, "planned": 1},
        "warnings": ("look",),
        "groups": (group("dead"),),
        "kept": (KeptGroup(group_id="busy", verdict="live", reason="in use"),),
    }
    return DeletionPlan(**{**values, **changes})


def group(group_id: str, **changes: Any) -> PlannedGroup:
    values: dict[str, Any] = {
        "group_id": group_id,
        "group_type": "classic",
        "protocol_type": "consumer",
        "state": "Empty",
        "partitions": 1,
        "lag": 3,
        "idle_since": NOW,
        "idle_seconds": 1e6,
        "reason": "idle",
        "fingerprint": "a" * 64,
    }
    return PlannedGroup(**{**values, **changes})
