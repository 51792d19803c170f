"""Threads that compute ahead: results in order, not far ahead, and the first error ends the work."""

import os
import threading
import time
from collections.abc import Iterator

import pytest

from airflow_kafka_groups.judge.staleness.one_process import each
from airflow_kafka_groups.storage.file_storage import LocalStorage


def test_results_come_in_order_and_no_more_than_a_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
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

    for number, result in enumerate(each(work, items(), LocalStorage())):
        assert result == -number
        assert len(asked) <= number + 2 * 4
    assert asked == list(range(200))


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

    with pytest.raises(ValueError):  # noqa: PT011 - it is the only one
        list(each(work, range(10_000), LocalStorage()))
    there = len(ended)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("observations")]
    assert len(ended) == there < 100
