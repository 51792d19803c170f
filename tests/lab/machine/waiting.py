"""Waiting for what comes by itself, and no longer than a limit. Standard library only."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tests.lab.errors import LabError

_Found = TypeVar("_Found")


def until(
    holds: Callable[[], _Found],
    seconds: float = 90.0,
    otherwise: str | Callable[[], str] = "what was waited for did not come",
    *,
    every: float = 0.05,
    meanwhile: Callable[[], None] = lambda: None,
) -> _Found:
    """Wait until something holds, and return it; raises LabError when that takes too long.

    :param otherwise: what the error says; a function looks when it is too late.
    :param every: seconds between two looks.
    :param meanwhile: called after each look in vain; it may raise what makes waiting useless.
    """
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        meanwhile()
        if time.monotonic() > deadline:
            raise LabError(otherwise if isinstance(otherwise, str) else otherwise())
        time.sleep(every)
    return found


async def until_async(holds: Callable[[], object], seconds: float = 40.0) -> None:
    """Let others of this loop go on until something holds: the plain state of a fake, or what a thread does."""
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110  # there is no event
            await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Return whether a process runs. A zombie has ended; only its parent has not looked yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
