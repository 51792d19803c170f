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
    JournalError,
    LeaseLostError,
    OutcomeUnknownError,
    PlanError,
    PolicyError,
    RequestTimeoutError,
    SnapshotError,
    StorageError,
)
from airflow_kafka_groups.operators.approval import ApproveCleanupOperator, ApprovePruningOperator
from airflow_kafka_groups.operators.groups import FindCoordinatorsOperator
from airflow_kafka_groups.operators.notices import NotifyOwnersOperator
from airflow_kafka_groups.operators.offsets import ListGroupOffsetsOperator
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


OF_PLAN: dict[str, Any] = {"task_id": "t", "storage_path": "/s", "plan_id": "p", "plan_digest": "d", "retries": 2}
NOTIFY = NotifyOwnersOperator(**OF_PLAN)
SNAPSHOT = ListGroupOffsetsOperator(task_id="list_offsets", storage_path="/s", retries=2)
MISSING = PlanError("the plan is missing")


@pytest.mark.parametrize(
    ("task", "error", "expected"),
    [
        (NOTIFY, PolicyError("1 owner(s) could not be notified: pay: SMTPServerDisconnected"), "default"),
        (NOTIFY, JournalError("somebody else has written here meanwhile; run again"), "default"),
        (NOTIFY, MISSING, "fail"),
        (SNAPSHOT, SnapshotError("snapshot s may lack groups (broker 2: no answer). Run the task again"), "default"),
        (SNAPSHOT, MISSING, "fail"),
        *(
            (asked(**OF_PLAN), error, expected)
            for asked in (ApproveCleanupOperator, ApprovePruningOperator)
            for error, expected in (
                (PlanError("2 groups are planned, and '3' were confirmed"), "default"),
                (ConfigurationError("plan_digest", "d", "is no digest"), "fail"),
                (StorageError("the answer could not be written"), "fail"),
            )
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_the_next_try_mends_is_retried(task: Any, error: Exception, expected: str) -> None:
    """The run of a day failed with the first mail, broker, other run or mistyped number in its way."""
    assert not HAS_POLICIES or decision(task, error) == expected
    assert hasattr(task, "retry_policy") == HAS_POLICIES
