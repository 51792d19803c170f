"""How fast a deletion goes: so many groups and bytes a second at most, and slower while brokers are slow.

Brokers write a tombstone for every offset of a group, replicate it, and compact it away later. The limits keep that
below what a busy cluster can spare. Without limits, the brokers' own answers set the pace: one chunk is deleted at a
time, and when DeleteGroups takes ``SLOWER`` times as long for each group as it did in the first chunks of the run, the
run pauses after each chunk for as long as that chunk took, doubled while it lasts, up to ``LONGEST_PAUSE``.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from airflow_kafka_groups.change.deletion.request import DeletionLimits
from airflow_kafka_groups.change.deletion.size import OFFSET_BYTES

SLOWER = 4.0
LONGEST_PAUSE = 30.0
_FIRST = 3
"""Chunks that show how fast these brokers are."""
_WEIGHT = 0.4
"""Of the newest chunk in the moving average."""
_NOTICED = 0.5
"""Seconds that a request has to take before a pause helps anybody."""


class Pace:
    """The times at which chunks may begin.

    :param limits: groups and bytes a second.
    :param monotonic: returns seconds that only grow.
    :param notice: receives a sentence when the run begins to pause, and when it goes on as before.
    """

    def __init__(self, limits: DeletionLimits, monotonic: Callable[[], float], notice: Callable[[str], None]) -> None:
        self._limits = limits
        self._monotonic = monotonic
        self._notice = notice
        self._next = monotonic()
        self._first: list[float] = []
        self._usual_groups = 0
        self._average: float | None = None
        self._pause = 0.0

    @property
    def wait_seconds(self) -> float:
        """The seconds until the next chunk may be read; 0 or less when it may at once."""
        return self._next - self._monotonic()

    def begin(self, groups: int, offsets: int) -> None:
        """Note a chunk that is read now: the next one has to wait until this one was paid for."""
        seconds = 0.0
        if self._limits.groups_per_second is not None:
            seconds = groups / self._limits.groups_per_second
        if self._limits.bytes_per_second is not None:
            seconds = max(seconds, offsets * OFFSET_BYTES / self._limits.bytes_per_second)
        self._next = max(self._next, self._monotonic()) + seconds

    def answered(self, groups: int, seconds: float) -> None:
        """Note how long brokers took to delete a chunk."""
        each = seconds / max(groups, self._usual_groups, 1)  # a small chunk costs no less
        if len(self._first) < _FIRST:
            self._first.append(each)
            self._usual_groups = max(self._usual_groups, groups)
            return
        self._average = each if self._average is None else _WEIGHT * each + (1 - _WEIGHT) * self._average
        usual = median(self._first)
        if self._average > SLOWER * usual and seconds > _NOTICED:
            if not self._pause:
                self._notice(
                    f"brokers take {self._average / usual if usual else SLOWER:.1f} times as long for a group as at "
                    "first: the deletion pauses after each chunk"
                )
            self._pause = min(max(seconds, 2 * self._pause), LONGEST_PAUSE)
            self._next = max(self._next, self._monotonic()) + self._pause
        elif self._pause:
            self._pause = 0.0
            self._notice("brokers are as quick as at first again: the deletion goes on without pauses")
