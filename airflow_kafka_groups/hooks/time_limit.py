"""A task's ``execution_timeout`` ends its call to the cluster.

Airflow's timer raises ``AirflowTaskTimeout`` wherever the main thread happens to be. In a callback of the event loop,
such as one that decodes an answer, or in a task that nobody awaits, asyncio takes that for a failure of this one
callback, and the timer rings only once: the call would go on without a limit. So the call is cancelled as well.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class _Timer:
    """Airflow's timer, which also cancels the calls that have begun.

    :param handler: what Airflow has the timer do.
    """

    def __init__(self, handler: Callable[[int, FrameType | None], object]) -> None:
        self._handler = handler
        self._calls: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[object]]] = []
        self.raised: BaseException | None = None

    def begin(self) -> None:
        """Remember the running call."""
        if (task := asyncio.current_task()) is not None:
            self._calls.append((asyncio.get_running_loop(), task))

    def ring(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        for loop, task in self._calls:
            if not loop.is_closed():
                loop.call_soon_threadsafe(task.cancel)
        try:
            self._handler(number, frame)
        except BaseException as exc:
            self.raised = exc
            raise


@contextmanager
def within_time_limit() -> Iterator[Callable[[], None]]:
    """Run an event loop so that the time limit of the task ends it, for ``with`` around ``asyncio.run``.

    Provides a function that the call to be cancelled has to call first. Raises what the timer raised, after the call
    has cleaned up.
    """
    alarm = getattr(signal, "SIGALRM", None)
    handler = None if alarm is None else signal.getsignal(alarm)
    if alarm is None or not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield lambda: None  # no limit, or one of another thread
        return
    timer = _Timer(handler)
    signal.signal(alarm, timer.ring)
    try:
        yield timer.begin
    finally:
        signal.signal(alarm, handler)
        if timer.raised is not None:
            raise timer.raised from None
