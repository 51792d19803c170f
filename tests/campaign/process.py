"""A process of the model: its faults, its end, and an event loop whose time is the model's."""

from __future__ import annotations

import asyncio
import selectors
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from tests.campaign.steps import Fault

if TYPE_CHECKING:
    from tests.campaign.world import World

T = TypeVar("T")

CALL_SECONDS = 0.05
CLOCKS = (-7 * 86_400.0, -90_000.0, -7_200.0, -240.0, 240.0)
"""What a worker's clock may suddenly be wrong by. No guard notices one that is days ahead: all looks idle by it."""
PAUSE = 120.0
JUMPS = (1.0, 9.0, 14.0, 16.0, 40.0, 120.0, 3_600.0, 20_000.0)


class KilledError(BaseException):
    """The process does not exist any more; nothing that it still does has an effect."""


class Process:
    """One try of one task.

    :param faults: what goes wrong, by the kind of call and its number.
    """

    def __init__(self, world: World, number: int, faults: tuple[Fault, ...] = (), depth: int = 0) -> None:
        self.world = world
        self.number = number
        self.depth = depth
        self.alive = True
        self.stale = False
        self.skew = timedelta(0)
        self.paused = 0.0
        self.interrupted: BaseException | None = None
        self._faults = faults
        self._counts: Counter[str] = Counter()

    def now(self) -> datetime:
        return self.world.now() + self.skew - timedelta(seconds=self.paused)

    def monotonic(self) -> float:
        return self.world.clock - self.paused

    def at(self, call: str) -> Mapping[str, Fault]:
        """Begin a call: let happen what is to happen before it, and return the faults that it is subject to."""
        if not self.alive:
            raise KilledError
        self.world.clock += CALL_SECONDS
        number = self._counts[call]
        self._counts[call] += 1
        due = {fault.kind: fault for fault in self._faults if fault.call == call and fault.nth == number}
        for kind, fault in due.items():
            self.world.injected[kind] += 1
            self._before(kind, fault)
        return due

    def after(self, due: Mapping[str, Fault]) -> None:
        """End a call that had its effect."""
        if "kill_after" in due:
            self.kill()

    def kill(self) -> None:
        self.alive = False
        raise KilledError

    def _before(self, kind: str, fault: Fault) -> None:
        if kind == "kill":
            self.kill()
        elif kind == "cancel":
            self.interrupted = asyncio.CancelledError()
        elif kind == "interrupt":
            self.interrupted = KeyboardInterrupt()
        elif kind == "jump":
            self.world.jump(self, JUMPS[fault.arg % len(JUMPS)], stopped=fault.arg >= 500)
        elif kind == "pause" and self.world.takes_lease:  # by its host, with all of its clocks
            self.world.clock += PAUSE
            self.paused += PAUSE
        elif kind == "clock":
            self.skew = timedelta(seconds=CLOCKS[fault.arg % len(CLOCKS)])
        elif kind == "life":
            self.world.event(fault.arg // 8, fault.arg % 8)
        elif kind == "other" and not self.depth:
            if fault.arg % 2:  # it is long enough away for its lease to go to another
                self.world.clock += 60.0
            self.world.meanwhile(fault.steps)

    def check_interrupted(self) -> None:
        """Raise what interrupted the process, where its code waits."""
        if self.interrupted is not None:
            error, self.interrupted = self.interrupted, None
            raise error


class _InstantSelector(selectors.SelectSelector):
    """Waits for nothing: the time that would be waited for passes in the model."""

    process: Process | None = None

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("the model waits for something that never comes")
        if timeout > 0 and self.process is not None:
            self.process.world.jump(self.process, timeout + 1e-6, stopped=False)
        return []


class ModelLoop(asyncio.SelectorEventLoop):
    """An event loop by the model's clock that runs the functions of threads at once."""

    def __init__(self) -> None:
        self.instant = _InstantSelector()
        super().__init__(self.instant)

    def time(self) -> float:
        return super().time() if self.instant.process is None else self.instant.process.monotonic()

    def run_in_executor(  # type: ignore[override]  # typeshed names the types of the arguments
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self.create_future()
        process = self.instant.process
        try:
            future.set_result(func(*args))
        except Exception as exc:  # noqa: BLE001  # as an executor does
            future.set_exception(exc)
            future.exception()
        if process is not None:
            process.check_interrupted()  # a thread goes on while the task that waits for it is interrupted
        return future


class Loops:
    """One loop for a process, one for those that run while it is stopped."""

    def __init__(self) -> None:
        self._loops: dict[int, ModelLoop] = {}

    def run(self, process: Process, work: Coroutine[Any, Any, T]) -> T:
        """Run a process to its end: its result, its error, or what interrupted or killed it."""
        if process.depth not in self._loops:
            self._loops[process.depth] = ModelLoop()
        loop = self._loops[process.depth]
        loop.instant.process = process
        task = loop.create_task(work)
        try:
            return loop.run_until_complete(task)
        finally:
            while pending := asyncio.all_tasks(loop):
                for left in pending:
                    left.cancel()
                loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())

    def close(self) -> None:
        for loop in self._loops.values():
            loop.instant.process = None
            loop.close()
