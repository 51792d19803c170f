"""Whose retries get a policy: those of tasks that could have one, and have none of their own."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from airflow.sdk import BaseOperator

from airflow_kafka_groups.exceptions import BackupError, FileExistsAlreadyError, StorageError
from airflow_kafka_groups.hooks.retries import FINAL, set_retry_policy

HAS_POLICIES = hasattr(BaseOperator, "retry_policy")


def test_a_task_of_an_airflow_without_policies_is_left_as_it_is() -> None:
    task = SimpleNamespace()
    set_retry_policy(task)
    assert vars(task) == {}


def test_a_policy_that_the_task_has_stands() -> None:
    task = SimpleNamespace(retry_policy="its own")
    set_retry_policy(task)
    assert task.retry_policy == "its own"


@pytest.mark.parametrize("error", FINAL if HAS_POLICIES else [], ids=lambda error: error.__name__)
def test_a_task_without_one_ends_its_retries_where_they_cannot_help(error: type[Exception]) -> None:
    task = SimpleNamespace(retry_policy=None)
    set_retry_policy(task)
    raised = error.__new__(error)
    assert task.retry_policy.evaluate(raised, 1, 3).reason == FINAL[error]
    assert task.retry_policy.evaluate(OSError("disk"), 1, 3).action.value == "default"


@pytest.mark.skipif(not HAS_POLICIES, reason="this Airflow has no retry policies")
def test_a_storage_that_was_away_is_tried_again_and_a_file_that_is_not_fit_is_not() -> None:
    task = SimpleNamespace(retry_policy=None)
    set_retry_policy(task)
    assert task.retry_policy.evaluate(StorageError("s3://b could not be read"), 1, 3).action.value == "default"
    assert task.retry_policy.evaluate(BackupError("damaged"), 1, 3).action.value == "fail"
    assert task.retry_policy.evaluate(FileExistsAlreadyError("it exists"), 1, 3).action.value == "fail"
