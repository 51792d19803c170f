"""Which failures a retry can mend. Airflow 3.3 asks a task's retry policy; an older one retries all failures alike."""

from __future__ import annotations

from functools import cache
from typing import Any

from airflow_kafka_groups.exceptions import (
    AuthenticationFailedError,
    ConfigurationError,
    LeaseLostError,
    LocalProtocolError,
    MaintenanceError,
    OutcomeUnknownError,
)

FINAL: dict[type[Exception], str] = {
    ConfigurationError: "the input has to be corrected",
    AuthenticationFailedError: "the brokers refuse these credentials, and may lock the user out",
    LocalProtocolError: "the brokers cannot do this",
    OutcomeUnknownError: "a change may have happened: look before it is made again",
    LeaseLostError: "what was deleted until then is in the audit record: look before the rest is",
    MaintenanceError: "a file or plan is not fit for this, and will not be",
}
"""Failures that another try would only meet again, or must not follow blindly, and why."""


def set_retry_policy(task: Any) -> None:
    """Let a task's retries end at once where they cannot help, unless it has a retry policy of its own.

    :param task: an operator or sensor; one of an Airflow without retry policies (before 3.3) is left as it is.
    """
    if getattr(task, "retry_policy", False) is None:
        task.retry_policy = _policy()


@cache
def _policy() -> Any:
    from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

    return ExceptionRetryPolicy(
        [RetryRule(exception=error, action=RetryAction.FAIL, reason=reason) for error, reason in FINAL.items()]
    )
