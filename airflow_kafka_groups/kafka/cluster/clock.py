"""The clock by which readings and leases age: monotonic, and it includes the time that the machine is suspended.

``time.monotonic``, and with it the event loop's clock, stops during suspend on Linux: after a wake-up, what was read
before would look recent. CLOCK_BOOTTIME includes that time. Where a system has no such clock, the larger of the
progress of the monotonic and of the wall clock counts: a wall clock that is put forward only makes things look older.
No guest clock includes a pause of the complete virtual machine; docs/membership.md explains what that means for the
lease.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

Clock = Callable[[], float]


class LargerProgress:
    """A clock that advances by the larger of what two others advanced since it was last read; never backwards.

    :param monotonic: stops while the machine is suspended.
    :param wall: may be set back and forth.
    """

    def __init__(self, monotonic: Clock = time.monotonic, wall: Clock = time.time) -> None:
        self._monotonic, self._wall = monotonic, wall
        self._seen = monotonic(), wall()
        self._now = self._seen[0]
        self._lock = threading.Lock()

    def __call__(self) -> float:
        """Return the seconds since a fixed moment."""
        with self._lock:
            seen = self._monotonic(), self._wall()
            self._now += max(0.0, seen[0] - self._seen[0], seen[1] - self._seen[1])
            self._seen = seen
            return self._now


def system_clock() -> Clock:
    """Return the system's clock that includes suspended time, or the best substitute."""
    try:
        boot_time = time.CLOCK_BOOTTIME
        time.clock_gettime(boot_time)
    except (AttributeError, OSError):  # not Linux; or a sandbox that lacks it
        return LargerProgress()
    return lambda: time.clock_gettime(boot_time)


_clock = system_clock()


def now() -> float:
    """Return the seconds since a fixed moment, suspended time included."""
    return _clock()
