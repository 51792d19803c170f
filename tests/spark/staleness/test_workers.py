"""Threads of the driver: as many as cores, and no more results in memory than twice as many."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_groups.spark.workers import Workers

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(("parallelism", "at_once"), [(1, 2), (1000, 4)])
def test_a_session_for_many_partitions_is_no_machine_with_many_cores(
    monkeypatch: pytest.MonkeyPatch, parallelism: int, at_once: int
) -> None:
    """``spark.default.parallelism`` is often set to hundreds, and each result is a snapshot's observations."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="local[*]", defaultParallelism=parallelism))
    snapshots = iter(range(5000))
    with Workers(spark, is_local=True) as workers:
        assert next(workers.each(str, snapshots)) == (0, "0")
    assert next(snapshots) == at_once
