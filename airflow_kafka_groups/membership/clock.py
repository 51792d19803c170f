"""The membership clock: monotonic, and it includes the time that the machine is suspended.

``time.monotonic`` stops during suspend on Linux, so after a wake-up the last heartbeat would look recent.
CLOCK_BOOTTIME includes that time. No guest clock includes a pause of the complete virtual machine; docs/membership.md
explains what that means for the lease.
"""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]

if hasattr(time, "CLOCK_BOOTTIME"):

    def now() -> float:
        """Return the seconds since a fixed moment."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:  # elsewhere, monotonic clocks include suspend, or there is nothing better

    def now() -> float:
        """Return the seconds since a fixed moment."""
        return time.monotonic()
