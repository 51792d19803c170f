"""Keep Python's cyclic collector out of the way while many results are gathered.

Each time some hundred objects are kept, the collector looks through them for cycles; the results of 50,000 groups are
looked through again and again, for a third of the time of the whole call, and have no cycle. So it pauses while a call
gathers its results, for the seconds that takes, and goes on afterwards as it was. Streams, whose results are not kept,
do without.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_MANY = 10_000

_lock = threading.Lock()
_holders = 0
_was_enabled = False


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the cyclic collector; several calls may do so at once, and the last one out starts it again."""
    global _holders, _was_enabled
    with _lock:
        if _holders == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _holders += 1
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if _holders == 0 and _was_enabled:
                _call_them_old()
                gc.enable()


def _call_them_old() -> None:
    """Let what was gathered be old at once: the collector would look through all of it when it starts again.

    It becomes part of the oldest generation, which is looked through when that has grown by a quarter. Objects that
    somebody has frozen (as one does before forking) would thaw with it: then the collector does its work.
    """
    if gc.get_count()[0] >= _MANY and gc.get_freeze_count() == 0:
        gc.freeze()
        gc.unfreeze()
