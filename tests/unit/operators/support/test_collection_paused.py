"""Operators that work on very many groups do so, and import what they need, while the cyclic collector pauses."""

import gc
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.plan import make_plan as plan_snapshot
from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook
from airflow_kafka_groups.ledger import deletion_plan
from airflow_kafka_groups.operators.backup import BackupGroupOffsetsOperator, RestoreDrillOperator
from airflow_kafka_groups.operators.offsets import ListGroupLagOperator, ListGroupOffsetsOperator
from airflow_kafka_groups.operators.plan import PlanCleanupOperator
from airflow_kafka_groups.operators.report import CleanupReportOperator


class Reached(Exception):
    """The work has begun."""


@pytest.mark.parametrize(
    ("operator", "arguments", "owner", "name"),
    [
        (PlanCleanupOperator, {}, plan_snapshot, "plan_snapshot"),
        (CleanupReportOperator, {"plan_id": "p"}, deletion_plan, "load_plan"),
        (ListGroupLagOperator, {}, KafkaGroupsHook, "run"),
        (ListGroupOffsetsOperator, {}, KafkaGroupsHook, "run"),
        (BackupGroupOffsetsOperator, {}, KafkaGroupsHook, "run"),
        (RestoreDrillOperator, {"plan_id": "p"}, KafkaGroupsHook, "run"),
    ],
)
def test_the_collector_pauses_and_goes_on(
    operator: Any, arguments: dict[str, Any], owner: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def work(*args: object, **kwargs: object) -> None:
        seen.append(gc.isenabled())
        raise Reached

    monkeypatch.setattr(owner, name, work)
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", "kafka-groups://localhost:9092")
    storage = {} if operator is ListGroupLagOperator else {"storage_path": str(tmp_path)}
    was_enabled = gc.isenabled()
    gc.enable()
    try:
        with pytest.raises(Reached):
            operator(task_id="t", **arguments, **storage).execute({})
        assert seen == [False]
        assert gc.isenabled()
    finally:
        gc.enable() if was_enabled else gc.disable()
