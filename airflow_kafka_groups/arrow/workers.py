"""Threads that read files: as many as it has cores, or more where each file is waited for."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")
_REMOTE = 16


class Workers(AbstractContextManager["Workers"]):
    """Threads, until the end of the block.

    :param cores: how many of this machine's to use. Default: all.
    :param is_local: whether the files are on a local disk.
    """

    def __init__(self, cores: int | None = None, *, is_local: bool) -> None:
        there = os.cpu_count() or 1
        cores = min(cores or there, there)
        self._threads = cores if is_local else max(cores, _REMOTE)
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="observations")

    def __exit__(self, *_: Any) -> None:
        self._pool.shutdown(cancel_futures=True)

    def each(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[tuple[T, R]]:
        """Return what a function returns for each item, in order, and compute the next ones meanwhile.

        No more results are kept than twice the number of threads. After an error, nothing of it runs any more.
        """
        waiting: deque[tuple[T, Future[R]]] = deque()
        try:
            for item in items:
                waiting.append((item, self._pool.submit(work, item)))
                if len(waiting) >= 2 * self._threads:
                    first, done = waiting.popleft()
                    yield first, done.result()
            for first, done in waiting:
                yield first, done.result()
        finally:
            wait([done for _, done in waiting if not done.cancel()])
