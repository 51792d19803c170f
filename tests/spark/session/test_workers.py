"""The driver's threads: results in order, computed ahead but not far, and the first error ends the work."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_groups.arrow.workers import Workers
from airflow_kafka_groups.spark.session_on_demand import SessionOnDemand

pytestmark = pytest.mark.spark


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


@pytest.mark.parametrize(("parallelism", "at_once"), [(1, 2), (1000, 4)])
def test_a_session_for_many_partitions_is_no_machine_with_many_cores(
    monkeypatch: pytest.MonkeyPatch, parallelism: int, at_once: int
) -> None:
    """``spark.default.parallelism`` is often set to hundreds, and each result is a snapshot's observations."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="local[*]", defaultParallelism=parallelism))
    monkeypatch.setattr(SessionOnDemand, "get", lambda _: session)
    snapshots = iter(range(5000))
    with SessionOnDemand("a job", session) as on_demand, Workers(on_demand.cores, is_local=True) as workers:
        assert next(workers.each(str, snapshots)) == (0, "0")
    assert next(snapshots) == at_once
