"""Threads of the driver that read files: as many as it has cores, or more where each file is waited for."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from airflow_kafka_groups.spark.session import runs_locally

T = TypeVar("T")
R = TypeVar("R")
_REMOTE = 16

DRIVER_ROWS = 20_000_000
"""The number of rows up to which they do all the work, by default: on executors, Python has to start first."""


class Workers(AbstractContextManager["Workers"]):
    """Threads, until the end of the block.

    :param is_local: whether the files are on a local disk.
    """

    def __init__(self, spark: SparkSession, *, is_local: bool) -> None:
        cores = os.cpu_count() or 1
        if runs_locally(spark):  # with fewer of them, or with a thousand partitions
            cores = min(int(spark.sparkContext.defaultParallelism), cores)
        self._threads = cores if is_local else max(cores, _REMOTE)
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="observations")

    def __exit__(self, *_: Any) -> None:
        self._pool.shutdown(cancel_futures=True)

    def each(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[tuple[T, R]]:
        """Return what a function returns for each item, in order, and compute the next ones meanwhile.

        No more results are kept than twice the number of threads.
        """
        waiting: deque[tuple[T, Future[R]]] = deque()
        for item in items:
            waiting.append((item, self._pool.submit(work, item)))
            if len(waiting) >= 2 * self._threads:
                first, done = waiting.popleft()
                yield first, done.result()
        for first, done in waiting:
            yield first, done.result()
