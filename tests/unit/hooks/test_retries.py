"""Which failures are tried again, by Airflow's retry policies (3.3), and for how long a call may run."""

import asyncio
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowTaskTimeout
from airflow.sdk.execution_time.timeout import timeout

from airflow_kafka_groups.exceptions import (
    AuthenticationFailedError,
    BackupError,
    BrokerError,
    ConfigurationError,
    ConnectionFailedError,
    FileExistsAlreadyError,
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
from airflow_kafka_groups.hooks.cluster import ConnectedCluster
from airflow_kafka_groups.hooks.retries import FINAL, set_retry_policy
from airflow_kafka_groups.operators.approval import ApproveCleanupOperator, ApprovePruningOperator
from airflow_kafka_groups.operators.groups import FindCoordinatorsOperator
from airflow_kafka_groups.operators.notices import NotifyOwnersOperator
from airflow_kafka_groups.operators.offsets import ListGroupOffsetsOperator
from airflow_kafka_groups.sensors.groups import FindCoordinatorsSensor

HAS_POLICIES = hasattr(BaseOperator, "retry_policy")


def test_a_task_without_policies_or_with_its_own_is_left_as_it_is() -> None:
    for task in (SimpleNamespace(), SimpleNamespace(retry_policy="its own")):
        before = dict(vars(task))
        set_retry_policy(task)
        assert vars(task) == before


@pytest.mark.parametrize("error", FINAL if HAS_POLICIES else [], ids=lambda error: error.__name__)
def test_a_task_without_one_ends_its_retries_where_they_cannot_help(error: type[Exception]) -> None:
    task = SimpleNamespace(retry_policy=None)
    set_retry_policy(task)
    raised = error.__new__(error)
    assert task.retry_policy.evaluate(raised, 1, 3).reason == FINAL[error]
    assert task.retry_policy.evaluate(OSError("disk"), 1, 3).action.value == "default"


LIMIT = 0.1


def compute(seconds: float) -> None:
    """Keep the processor busy, as decoding an answer does."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


class Cluster(ConnectedCluster):
    """A cluster of whose client nothing is needed."""

    def get_conn(self) -> Any:
        return nullcontext()


def run_too_long(busy: str, done: list[str]) -> None:
    """Make a call that lasts far longer than its task may, and is busy with this when the time is over."""

    async def in_a_task() -> None:
        compute(3 * LIMIT)

    async def call(_: Any) -> str:
        loop = asyncio.get_running_loop()
        if busy == "a callback":
            loop.call_soon(compute, 3 * LIMIT)
        elif busy == "another task":
            done.append(loop.create_task(in_a_task()).get_name())
        elif busy == "the call itself":
            compute(3 * LIMIT)
        try:
            await asyncio.sleep(8 * LIMIT)
        finally:
            done.append("cleaned up")
        done.append("went on")
        return "result"

    with timeout(LIMIT) as limit:  # type: ignore[no-untyped-call]  # as Airflow does around execute()
        try:
            Cluster().run(call)
        finally:
            assert signal.getsignal(signal.SIGALRM) == limit.handle_timeout, "Airflow's timer is left as it was"


@pytest.mark.parametrize("busy", ["a callback", "another task", "the call itself", "nothing"])
def test_the_time_limit_of_a_task_ends_its_call(busy: str) -> None:
    done: list[str] = []
    with pytest.raises(AirflowTaskTimeout):
        run_too_long(busy, done)
    assert "went on" not in done


def test_a_call_in_time_leaves_the_timer_alone_and_outside_of_the_main_thread_there_is_no_limit() -> None:
    async def call(_: Any) -> str:
        return "result"

    with timeout(60) as limit, ThreadPoolExecutor(1) as pool:  # type: ignore[no-untyped-call]
        assert Cluster().run(call) == "result"
        assert signal.getsignal(signal.SIGALRM) == limit.handle_timeout
        assert pool.submit(Cluster().run, call).result() == "result"


async def test_the_time_limit_of_an_async_task_ends_the_call_that_another_thread_makes() -> None:
    """The hook makes it there, since the task's own event loop runs: without an end, the task waits for the thread."""
    done: list[str] = []

    async def call(_: Any) -> None:
        await asyncio.sleep(8 * LIMIT)
        done.append("went on")

    with pytest.raises(AirflowTaskTimeout), timeout(LIMIT):  # type: ignore[no-untyped-call]
        Cluster().run(call)
    assert done == []


# Retries end at once where they cannot help: by Airflow's retry policies, where it has them (3.3).


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
        (StorageError("s3://b could not be read"), "default"),  # it was away
        (BackupError("damaged"), "fail"),  # a file that is not fit
        (FileExistsAlreadyError("it exists"), "fail"),
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
