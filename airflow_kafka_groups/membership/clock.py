"""The clock by which a membership judges itself: seconds that never go back, and that go on while the machine sleeps.

``time.monotonic`` stands still during suspend on Linux, so a machine that wakes up would go on believing that its last
heartbeat was a moment ago. CLOCK_BOOTTIME counts that time too. No clock of a guest counts a pause of the whole virtual
machine by its host; see docs/membership.md for what that means for the lease.
"""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]

if hasattr(time, "CLOCK_BOOTTIME"):

    def now() -> float:
        """Give the time in seconds since some fixed moment."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:  # not Linux: there, monotonic clocks count suspend or there is nothing better

    def now() -> float:
        """Give the time in seconds since some fixed moment."""
        return time.monotonic()
