"""Failures that the next try can mend are retried: a mail server, a broker or another run was in the way."""

from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError, JournalError, PlanError, PolicyError, SnapshotError
from airflow_kafka_groups.operators.notices import NotifyOwnersOperator
from airflow_kafka_groups.operators.offsets import ListGroupOffsetsOperator
from tests.unit.operators.deleting.test_retries import HAS_POLICIES, decision

NOTIFY = NotifyOwnersOperator(task_id="notify", storage_path="/s", plan_id="p", plan_digest="d", retries=2)
SNAPSHOT = ListGroupOffsetsOperator(task_id="list_offsets", storage_path="/s", retries=2)


@pytest.mark.parametrize(
    ("task", "error"),
    [
        (NOTIFY, PolicyError("1 owner(s) could not be notified: pay: SMTPServerDisconnected")),
        (NOTIFY, JournalError("somebody else has written here meanwhile; run again")),
        (SNAPSHOT, SnapshotError("snapshot s may lack groups (broker 2: no answer). Run the task again")),
    ],
    ids=["a message failed", "another plan's notices", "a broker did not answer"],
)
def test_what_the_next_try_mends_is_retried(task: Any, error: Exception) -> None:
    """The run of a day failed with the first mail, broker or other run in its way, whatever ``retries`` says."""
    assert not HAS_POLICIES or decision(task, error) == "default"
    assert hasattr(task, "retry_policy") == HAS_POLICIES


@pytest.mark.parametrize("task", [NOTIFY, SNAPSHOT], ids=["notify", "snapshot"])
def test_what_would_repeat_is_not(task: Any) -> None:
    for error in (ConfigurationError("cluster", "?", "is no name"), PlanError("the plan is missing")):
        assert not HAS_POLICIES or decision(task, error) == "fail"
