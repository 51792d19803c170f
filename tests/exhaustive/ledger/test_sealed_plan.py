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
        ({"approved_digest": "b" * 64}, "not the approved one"),
        ({"approved_digest": ""}, "not the approved one"),
    ],
)
def test_a_plan_applies_here_and_now_or_not_at_all(changes: dict[str, Any], message: str) -> None:
    fitting: dict[str, Any] = {"kafka_cluster_id": CLUSTER_ID, "now": NOW, "approved_digest": plan().digest}
    require_applicable(plan(), **fitting)
    with pytest.raises(PlanError, match=message):
        require_applicable(plan(), **{**fitting, **changes})


def test_two_clusters_without_a_name_are_not_the_same_cluster() -> None:
    with pytest.raises(PlanError, match="check the connection"):
        require_applicable(plan(kafka_cluster_id=""), kafka_cluster_id="", now=NOW)
