"""The driver's threads: results in order, computed ahead but not far, and the first error ends the work."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from airflow_kafka_groups.arrow.workers import Workers


def test_results_come_in_order_and_no_more_than_a_few_are_kept() -> None:
    asked: list[int] = []
    second = threading.Event()

    def items() -> Iterator[int]:
        for number in range(200):
            asked.append(number)
            yield number

    def work(number: int) -> int:
        if number == 0:
            assert second.wait(30), "the next one is computed meanwhile"
        second.set()
        return -number

    with Workers(is_local=False) as workers:
        for number, result in workers.each(work, items()):
            assert result == -number
            assert len(asked) <= number + 2 * 16
    assert asked == list(range(200))


def test_the_first_error_ends_the_work() -> None:
    done: list[int] = []

    def work(number: int) -> None:
        if number >= 3:
            raise ValueError(str(number))
        done.append(number)

    with Workers(is_local=True) as workers, pytest.raises(ValueError, match="3"):
        list(workers.each(work, range(10_000)))
    assert done == [0, 1, 2]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("observations")]


def test_nothing_runs_any_more_when_an_error_is_raised() -> None:
    """What a job then removes is written by nobody behind its back."""
    begun = threading.Event()
    ended: list[int] = []

    def work(number: int) -> None:
        if number == 0:
            assert begun.wait(30)
            raise ValueError
        begun.set()
        time.sleep(0.2)
        ended.append(number)

    with Workers(is_local=False) as workers:
        with pytest.raises(ValueError):  # noqa: PT011 - it is the only one
            list(workers.each(work, range(2)))
        assert ended == [1]
