"""Threads that read or compute ahead, in order and with few results in memory."""

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

    :param cores: how many of this machine's to use, and not one more. Default: all.
    :param is_local: whether the files are on a local disk.
    """

    def __init__(self, cores: int | None = None, *, is_local: bool) -> None:
        there = os.cpu_count() or 1
        cores = min(cores or there, there)
        threads = cores if is_local else max(cores, _REMOTE)
        self._ahead, self._caller_helps = 2 * threads, is_local
        others = threads - 1 if is_local else threads
        self._pool = ThreadPoolExecutor(others, thread_name_prefix="observations") if others else None

    def __exit__(self, *_: Any) -> None:
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def each(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[tuple[T, R]]:
        """Return what a function returns for each item, in order, and compute the next ones meanwhile.

        No more results are kept than twice the number of threads. After an error, nothing of it runs any more. On a
        local disk, the caller computes, too, instead of waiting for a result.
        """
        waiting: deque[tuple[T, Future[R]]] = deque()
        try:
            for item in items:
                waiting.append((item, self._pool.submit(work, item) if self._pool else Future()))
                if len(waiting) >= self._ahead:
                    yield self._first(work, waiting)
            while waiting:
                yield self._first(work, waiting)
        finally:
            wait([done for _, done in waiting if not done.cancel()])

    def _first(self, work: Callable[[T], R], waiting: deque[tuple[T, Future[R]]]) -> tuple[T, R]:
        """Remove the first of the items from those that wait, and return it with its result."""
        while self._caller_helps and not waiting[0][1].done():
            place = next((place for place, (_, done) in enumerate(waiting) if done.cancel()), None)
            if place is None:  # threads compute all of them
                break
            item, result = waiting[place][0], Future[R]()
            waiting[place] = item, result
            try:
                result.set_result(work(item))
            except Exception as exc:  # noqa: BLE001 - raised when it is this item's turn
                result.set_exception(exc)
        item, done = waiting.popleft()
        return item, done.result()
