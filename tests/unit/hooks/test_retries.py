"""Which failures are tried again, and for how long a call may run."""

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

from airflow_kafka_groups.exceptions import BackupError, FileExistsAlreadyError, StorageError
from airflow_kafka_groups.hooks.cluster import ConnectedCluster
from airflow_kafka_groups.hooks.retries import FINAL, set_retry_policy

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


@pytest.mark.skipif(not HAS_POLICIES, reason="this Airflow has no retry policies")
def test_a_storage_that_was_away_is_tried_again_and_a_file_that_is_not_fit_is_not() -> None:
    task = SimpleNamespace(retry_policy=None)
    set_retry_policy(task)
    assert task.retry_policy.evaluate(StorageError("s3://b could not be read"), 1, 3).action.value == "default"
    assert task.retry_policy.evaluate(BackupError("damaged"), 1, 3).action.value == "fail"
    assert task.retry_policy.evaluate(FileExistsAlreadyError("it exists"), 1, 3).action.value == "fail"


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
