"""The failures that a retry cannot solve. Airflow 3.3 uses a task's retry policy; older versions retry all failures."""

from __future__ import annotations

from functools import cache
from typing import Any

from airflow_kafka_groups.exceptions import (
    AirflowUnavailableError,
    AuthenticationFailedError,
    ConfigurationError,
    ConnectionFailedError,
    DeadlineExceededError,
    FileExistsAlreadyError,
    FinalTriggerError,
    KafkaGroupsError,
    LeaseLostError,
    LocalProtocolError,
    MaintenanceError,
    OutcomeUnknownError,
    RequestTimeoutError,
    StorageError,
)

FINAL: dict[type[Exception], str] = {
    ConfigurationError: "the input has to be corrected",
    FinalTriggerError: "the trigger met a failure that would repeat",
    AuthenticationFailedError: "the brokers refuse these credentials, and may lock the user out",
    LocalProtocolError: "the brokers cannot do this",
    OutcomeUnknownError: "a change may have happened: look before it is made again",
    LeaseLostError: "what was deleted until then is in the audit record: look before the rest is",
    FileExistsAlreadyError: "what it would write is there already",
    MaintenanceError: "a file or plan is not fit for this, and will not be",
}
"""Failures that would repeat, or must not be retried without a check, with the reason."""
_PASSING = (StorageError,)  # may be over at the next try: a storage that does not answer is no file that is not fit


def is_final(error: Exception) -> bool:
    """Return whether a retry would meet this failure again."""
    return isinstance(error, tuple(FINAL)) and not isinstance(error, _PASSING)


def why_not_yet(error: KafkaGroupsError, *, silent_fail: bool = False) -> str | None:
    """Return why a poll that failed is to be repeated, ``None`` if it is to fail; see Airflow's ``silent_fail``."""
    if isinstance(error, AuthenticationFailedError):
        return None
    if isinstance(error, AirflowUnavailableError):
        return str(error)
    if isinstance(error, ConnectionFailedError | RequestTimeoutError | DeadlineExceededError):
        return f"the cluster cannot be reached: {error}"
    return f"{type(error).__name__}: {error}" if silent_fail else None


def set_retry_policy(
    task: Any, mended: tuple[type[Exception], ...] = (), final: tuple[type[Exception], ...] = ()
) -> None:
    """Stop a task's retries at failures in ``FINAL``, unless it has its own retry policy (Airflow 3.3).

    :param mended: failures that a retry of this task can mend, whatever ``FINAL`` says. Default: none.
    :param final: failures that pass, and that this task is not to retry all the same. Default: none.
    """
    if getattr(task, "retry_policy", False) is None:
        task.retry_policy = _policy(mended, final)


@cache
def _policy(mended: tuple[type[Exception], ...], final: tuple[type[Exception], ...]) -> Any:
    from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

    passing = tuple(error for error in _PASSING if error not in final)
    ends = {error: RetryRule(exception=error, action=RetryAction.FAIL, reason=FINAL[error]) for error in FINAL}
    narrower = [rule for error, rule in ends.items() if issubclass(error, passing)]  # the first rule that fits counts
    again = [RetryRule(exception=error, action=RetryAction.DEFAULT) for error in (*mended, *passing)]
    return ExceptionRetryPolicy([*narrower, *again, *ends.values()])
