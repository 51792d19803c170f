"""Decide which lane may start. No process, no clock: ``__main__`` starts what this returns."""

from collections.abc import Sequence

from tests.lanes.lane import Lane


class Schedule:
    """The lanes that wait, run and have ended.

    A lane may start when all lanes that it needs have succeeded and its load fits beside those that run; a lane too
    large for the capacity starts when nothing else runs. Of several the first listed starts: list the longest first.

    :param capacity: the sum of loads that may run at once.
    """

    def __init__(self, lanes: Sequence[Lane], capacity: float) -> None:
        self._capacity = capacity
        self.waiting = list(lanes)
        self._running: dict[str, Lane] = {}
        self._succeeded: set[str] = set()

    @property
    def is_finished(self) -> bool:
        return not self.waiting and not self._running

    def start_next(self) -> Lane | None:
        """Return a lane to start now, and count it as running; ``None`` when none may start."""
        load = sum(lane.load for lane in self._running.values())
        for lane in self.waiting:
            fits = not self._running or load + lane.load <= self._capacity
            if fits and self._succeeded.issuperset(lane.needs):
                self.waiting.remove(lane)
                self._running[lane.name] = lane
                return lane
        return None

    def end(self, name: str, *, succeeded: bool) -> list[Lane]:
        """Record the end of a running lane; return the lanes that cannot run any more because of it."""
        del self._running[name]
        if succeeded:
            self._succeeded.add(name)
            return []
        failed, given_up = {name}, list[Lane]()
        while lost := [lane for lane in self.waiting if failed.intersection(lane.needs)]:
            given_up += lost
            failed.update(lane.name for lane in lost)
            self.waiting = [lane for lane in self.waiting if lane not in lost]
        return given_up
