"""The driver's threads: results in order, computed ahead but not far, and the first error ends the work."""

import itertools
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


def test_callers_wait_side_by_side_and_share_the_threads_and_what_is_kept() -> None:
    """As many rows are in memory as one caller has."""
    four, lock = threading.Barrier(4, timeout=30), threading.Lock()
    working = most = 0
    asked = [0] * 8

    def work(number: int) -> int:
        nonlocal working, most
        with lock:
            working += 1
            most = max(most, working)
        time.sleep(0.001)
        with lock:
            working -= 1
        return -number

    def call(caller: int) -> list[int]:
        four.wait()
        assert len([thread for thread in threading.enumerate() if thread.name.startswith("callers")]) == 4

        def items() -> Iterator[int]:
            for number in range(50):
                asked[caller] += 1
                yield number

        results = []
        for number, result in workers.each(work, items()):
            assert asked[caller] <= number + 2 * 16 // 4
            results.append(result)
        return [caller, *results]

    with Workers(is_local=False, callers=4) as workers:
        assert list(workers.side_by_side(call, range(8))) == [[each, *range(0, -50, -1)] for each in range(8)]
    assert 4 < most <= 16


def test_one_caller_is_this_thread_and_begins_the_next_when_it_is_asked_for() -> None:
    begun: list[int] = []

    def call(number: int) -> str:
        begun.append(number)
        return threading.current_thread().name

    with Workers(is_local=False) as workers:
        for number, name in enumerate(workers.side_by_side(call, range(3))):
            assert (len(begun), name) == (number + 1, threading.current_thread().name)


def test_after_an_interrupt_callers_end_at_their_next_item_and_no_other_begins() -> None:
    begun: list[int] = []

    def call(number: int) -> None:
        begun.append(number)
        if number:
            list(workers.each(time.sleep, itertools.repeat(0.01)))

    def stop(_: None) -> None:
        raise KeyboardInterrupt

    with Workers(is_local=False, callers=4) as workers, pytest.raises(KeyboardInterrupt):
        list(map(stop, workers.side_by_side(call, range(100))))
    assert len(begun) <= 5, "the first ends, and one more begins"
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(("observations", "callers"))]


def test_callers_with_many_groups_wait_for_one_another_and_others_do_not() -> None:
    """Two of them would be twice as much in memory."""
    small, large, running, most = threading.Barrier(2, timeout=30), threading.Event(), list[int](), 0

    def call(groups: int) -> None:
        nonlocal most
        with workers.alone(groups):
            if groups == 1:
                small.wait()  # for the other small one
                assert large.wait(30), "it runs beside them"
                return
            running.append(groups)
            most = max(most, len(running))
            large.set()
            time.sleep(0.05)
            running.remove(groups)

    with Workers(is_local=False, callers=4) as workers:
        list(workers.side_by_side(call, [1, 10**5, 10**6, 1, 10**7]))
    assert most == 1
