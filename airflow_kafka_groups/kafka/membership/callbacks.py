"""Calls of a member's callbacks: coroutines in the event loop, plain functions in a thread, never two at once."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from airflow_kafka_groups.exceptions import CallbackFailedError

_Outcome = tuple[Any, Exception | None]


class CallbackCaller:
    """The calls of one member's callbacks.

    :param group_id: the group, for errors.
    """

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._left_running: asyncio.Event | None = None

    async def call(self, callback: Callable[..., Any], *arguments: object) -> Any:
        """Call a callback and return its result. Raises ``CallbackFailedError`` from what it raises.

        A plain function goes on in its thread when its caller is cancelled, so the next call waits for it.
        """
        if self._left_running is not None:
            await self._left_running.wait()
            self._left_running = None
        name = getattr(callback, "__name__", "a callback")
        try:
            if inspect.iscoroutinefunction(callback):
                return await callback(*arguments)
            result, raised = await self._in_thread(callback, arguments)
            if inspect.isawaitable(result):
                result = await result
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Not of this task: the callback waited for a task that it has cancelled. Unnoticed, it would end the
            # membership without an error, and nobody who waits for a change would hear of it.
            raise self._failure(name, error) from error
        except Exception as error:
            raise self._failure(name, error) from error
        if raised is not None:
            raise self._failure(name, raised) from raised
        return result

    def _failure(self, name: str, error: BaseException) -> CallbackFailedError:
        return CallbackFailedError(self._group_id, f"{name}() raised {error!r}")

    async def _in_thread(self, callback: Callable[..., Any], arguments: tuple[object, ...]) -> _Outcome:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        began = False

        def run() -> _Outcome:
            nonlocal began
            began = True
            try:
                return callback(*arguments), None
            except Exception as error:  # noqa: BLE001  # handed over: before Python 3.12, no future takes a StopIteration
                return None, error
            finally:
                with suppress(RuntimeError):  # the loop is closed, so nobody waits
                    loop.call_soon_threadsafe(ended.set)

        try:
            return await asyncio.to_thread(run)
        except asyncio.CancelledError:
            if began:
                self._left_running = ended
            raise
