"""Retries end at once where they cannot help: by Airflow's retry policies, where it has them (3.3)."""

from typing import Any

import pytest
from airflow.sdk import BaseOperator

from airflow_kafka_groups.exceptions import (
    AuthenticationFailedError,
    BrokerError,
    ConfigurationError,
    ConnectionFailedError,
    GroupsFailedError,
    IncompleteListingError,
    LeaseLostError,
    OutcomeUnknownError,
    PlanError,
    RequestTimeoutError,
    StorageError,
)
from airflow_kafka_groups.operators.approval import ApproveCleanupOperator, ApprovePruningOperator
from airflow_kafka_groups.operators.groups import FindCoordinatorsOperator
from airflow_kafka_groups.sensors.groups import FindCoordinatorsSensor

HAS_POLICIES = hasattr(BaseOperator, "retry_policy")
TASKS = [FindCoordinatorsOperator, FindCoordinatorsSensor]


def decision(task: Any, error: BaseException) -> str:
    decided = task.retry_policy.evaluate(error, 1, 3)
    assert decided.action.value == "default" or decided.reason
    return str(decided.action.value)


@pytest.mark.parametrize("task_class", TASKS, ids=lambda task: task.__name__)
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConfigurationError("group_ids", [], "name one"), "fail"),
        (AuthenticationFailedError("b:9092", "refused"), "fail"),
        (OutcomeUnknownError("sent, not answered"), "fail"),
        (LeaseLostError("lease", "removed"), "fail"),
        (PlanError("expired"), "fail"),
        (ConnectionFailedError("b:9092", "hung up"), "default"),
        (RequestTimeoutError("no answer"), "default"),
        (IncompleteListingError({2: RequestTimeoutError("no answer")}), "default"),
        (BrokerError(14, "COORDINATOR_LOAD_IN_PROGRESS", "loading", api="ListGroups"), "default"),
        (OSError("disk"), "default"),
        (GroupsFailedError({"g": RequestTimeoutError("no answer")}, 2), "default"),
        (GroupsFailedError({"g": OutcomeUnknownError("sent, not answered")}, 2), "default"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value,
)
def test_what_a_retry_cannot_mend_is_not_retried(task_class: Any, error: Exception, expected: str) -> None:
    task = task_class(task_id="t", group_ids=["g"])
    if HAS_POLICIES:
        assert decision(task, error) == expected
    else:
        assert not hasattr(task, "retry_policy")


def test_a_tasks_own_policy_stands() -> None:
    if HAS_POLICIES:
        from airflow.sdk import ExceptionRetryPolicy

        own = ExceptionRetryPolicy([])
        assert FindCoordinatorsOperator(task_id="t", group_ids=["g"], retry_policy=own).retry_policy is own
        by_default = FindCoordinatorsOperator(task_id="t", group_ids=["g"], default_args={"retry_policy": own})
        assert by_default.retry_policy is own


@pytest.mark.parametrize("operator", [ApproveCleanupOperator, ApprovePruningOperator])
def test_an_unclear_answer_is_asked_for_again(operator: Any) -> None:
    """A mistyped number does not end the run of a day."""
    task = operator(task_id="t", storage_path="/s", plan_id="p", plan_digest="d", retries=2)
    if HAS_POLICIES:
        assert decision(task, PlanError("2 groups are planned, and '3' were confirmed")) == "default"
        assert decision(task, ConfigurationError("plan_digest", "d", "is no digest")) == "fail"
        assert decision(task, StorageError("the answer could not be written")) == "fail"
