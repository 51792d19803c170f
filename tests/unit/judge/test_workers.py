"""The driver's threads: results in order, computed ahead but not far, and the first error ends the work."""

import os
import threading
import time
from collections.abc import Iterator

import pytest

from airflow_kafka_groups.judge.workers import Workers


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


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_on_a_local_disk_as_many_threads_compute_as_it_has_cores_and_one_is_the_caller_s(
    cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a job of ``local[1]`` takes one core, whatever it computes between two results."""
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    together = threading.Barrier(cores)
    by: set[int] = set()

    def work(number: int) -> int:
        by.add(threading.get_ident())
        together.wait(30)  # all of them compute at the same time
        return -number

    with Workers(cores, is_local=True) as workers:
        assert list(workers.each(work, range(6 * cores))) == [(number, -number) for number in range(6 * cores)]
    assert len(by) == cores
    assert threading.get_ident() in by


def test_an_error_of_an_item_that_the_caller_computes_waits_for_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    failed = threading.Event()

    def work(number: int) -> int:
        if threading.current_thread() is threading.main_thread():
            failed.set()
            raise ValueError(str(number))
        assert failed.wait(30)
        return number

    before: list[int] = []
    with Workers(is_local=True) as workers, pytest.raises(ValueError, match=r"\d") as raised:
        before.extend(number for number, _ in workers.each(work, range(9)))
    assert before == list(range(int(str(raised.value))))


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
