"""The clock by which readings and leases age: monotonic, and it includes the time that the machine is suspended.

``time.monotonic``, and with it the event loop's clock, stops during suspend on Linux: after a wake-up, what was read
before would look recent. CLOCK_BOOTTIME includes that time. No guest clock includes a pause of the complete virtual
machine; docs/membership.md explains what that means for the lease.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

Clock = Callable[[], float]

# Where people develop, outside of Linux, there is only the second.
_clock: Clock = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def now() -> float:
    """Return the seconds since a fixed moment, suspended time included."""
    return _clock()
