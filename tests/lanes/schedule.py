"""Decide which lane may start. No process, no clock: ``__main__`` starts what this returns."""

from __future__ import annotations

from collections.abc import Sequence

from tests.lanes.lane import Lane


class Schedule:
    """The lanes that wait, run and have ended.

    A lane may start when all lanes that it needs have succeeded and its load fits beside those that run; a lane too
    large for the capacity starts when nothing else runs. Of several the first listed starts: list the longest first.

    :param lanes: each may need lanes of this list only.
    :param capacity: the sum of loads that may run at once.
    """

    def __init__(self, lanes: Sequence[Lane], capacity: float) -> None:
        names = [lane.name for lane in lanes]
        if len(set(names)) < len(names):
            raise ValueError("Two lanes have the same name.")
        for lane in lanes:
            if missing := set(lane.needs) - set(names):
                raise ValueError(f"The lane {lane.name!r} needs {', '.join(sorted(missing))}, which is not run.")
        _check_order(lanes)
        self._capacity = capacity
        self._waiting = list(lanes)
        self._running: dict[str, Lane] = {}
        self._succeeded: set[str] = set()
        self._failed: set[str] = set()

    @property
    def is_finished(self) -> bool:
        """Whether no lane waits or runs."""
        return not self._waiting and not self._running

    @property
    def waiting(self) -> tuple[Lane, ...]:
        """The lanes that have not started."""
        return tuple(self._waiting)

    def start_next(self) -> Lane | None:
        """Return a lane to start now, and count it as running; ``None`` when none may start."""
        load = sum(lane.load for lane in self._running.values())
        for lane in self._waiting:
            fits = not self._running or load + lane.load <= self._capacity
            if fits and self._succeeded.issuperset(lane.needs):
                self._waiting.remove(lane)
                self._running[lane.name] = lane
                return lane
        return None

    def end(self, name: str, *, succeeded: bool) -> tuple[Lane, ...]:
        """Record the end of a running lane; return the lanes that cannot run any more because of it."""
        del self._running[name]
        (self._succeeded if succeeded else self._failed).add(name)
        given_up: list[Lane] = []
        while lost := [lane for lane in self._waiting if self._failed.intersection(lane.needs)]:
            given_up += lost
            self._failed.update(lane.name for lane in lost)
            self._waiting = [lane for lane in self._waiting if lane not in lost]
        return tuple(given_up)


def _check_order(lanes: Sequence[Lane]) -> None:
    """Raise ValueError for lanes that wait for each other."""
    done: set[str] = set()
    left = list(lanes)
    while ready := [lane for lane in left if done.issuperset(lane.needs)]:
        done.update(lane.name for lane in ready)
        left = [lane for lane in left if lane.name not in done]
    if left:
        raise ValueError(f"These lanes wait for each other: {', '.join(lane.name for lane in left)}.")
