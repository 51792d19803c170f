"""Airflow's part in an approval: it asks, keeps who may answer, and resumes the task with what a person gave."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator

from airflow_kafka_groups.operators.approval import ApproveCleanupOperator
from tests.unit.operators import scene

ANN = {"id": "42", "name": "Ann"}


class Airflow:
    """Airflow's part: it asks, and resumes the task with ``answer``, which is what a person gave."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answer: dict[str, Any] = {
            "chosen_options": ["Approve"],
            "params_input": {"confirm_groups": "2", "exclude_groups": []},
            "responded_at": datetime(2026, 1, 1, tzinfo=UTC),
            "responded_by_user": ANN,
        }
        self.asked: list[ApproveCleanupOperator] = []
        monkeypatch.setattr(ApprovalOperator, "execute", lambda operator, context: self.asked.append(operator))
        monkeypatch.setattr(ApprovalOperator, "execute_complete", lambda operator, context, event: event)


def context(**changes: Any) -> Any:
    facts = {"dag_id": "d", "run_id": "r", "task_id": "approve", "map_index": -1, "try_number": 1, "id": "uuid-1"}
    task = SimpleNamespace(**{**facts, **changes}, xcom_push=lambda key, value: None)
    return {"ti": task, "task_instance": task}


def ask(storage: Path, planned: dict[str, Any], **arguments: Any) -> ApproveCleanupOperator:
    return ApproveCleanupOperator(**scene.of_plan(storage, planned), **arguments)
