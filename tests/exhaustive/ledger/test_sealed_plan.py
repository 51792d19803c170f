from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.ledger.sealed_plan import require_applicable
from tests.fakes.groups import CLUSTER_ID, NOW
from tests.unit.change.plan.plans import plan


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kafka_cluster_id": "other"}, "check the connection"),
        ({"kafka_cluster_id": None}, "check the connection"),
        ({"kafka_cluster_id": ""}, "check the connection"),
        ({"now": NOW + timedelta(days=1)}, "expired"),
    ],
)
def test_a_plan_applies_here_and_now_or_not_at_all(changes: dict[str, Any], message: str) -> None:
    fitting: dict[str, Any] = {"kafka_cluster_id": CLUSTER_ID, "now": NOW}
    require_applicable(plan(), **fitting)
    with pytest.raises(PlanError, match=message):
        require_applicable(plan(), **{**fitting, **changes})


@pytest.mark.parametrize("approved", ["b" * 64, ""])
def test_another_plan_than_the_approved_one_is_refused(approved: str) -> None:
    plan().require_digest(plan().digest)
    with pytest.raises(PlanError, match="not the one that was asked for or approved"):
        plan().require_digest(approved)


def test_two_clusters_without_a_name_are_not_the_same_cluster() -> None:
    with pytest.raises(PlanError, match="check the connection"):
        require_applicable(plan(kafka_cluster_id=""), kafka_cluster_id="", now=NOW)
