"""How long a broker that answers nothing is waited for: the time of one call, for all calls of a client together.

A command or a task makes many calls. Each of them would wait for a frozen broker until its own deadline.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable
from typing import TypeVar

from airflow_kafka_groups.exceptions import ConnectionFailedError
from airflow_kafka_groups.kafka.models import BrokerId

T = TypeVar("T")

LAST_TRY = 1.0
"""Seconds that each later call waits: the broker may have recovered. Any answer restarts the time."""


class Patience:
    """Since when brokers have answered nothing.

    :param seconds: how long a broker is waited for (``api_timeout``).
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._since: dict[BrokerId, float] = {}

    def asked(self, broker_id: BrokerId) -> None:
        """Note that a broker is waited for from now on, if it was not before."""
        self._since.setdefault(broker_id, time.monotonic())

    def answered(self, broker_id: BrokerId) -> None:
        """Note that a broker has answered, or that nobody waits for it any more."""
        self._since.pop(broker_id, None)

    def extend(self, seconds: float) -> None:
        """Put the end of all waiting off, by time in which no answer was looked for."""
        self._since = {broker_id: since + seconds for broker_id, since in self._since.items()}

    def is_silent(self, broker_id: BrokerId) -> bool:
        """Return whether others are better asked what any broker knows."""
        return time.monotonic() - self._since.get(broker_id, math.inf) > LAST_TRY

    def left(self, broker_id: BrokerId, begun: float | None = None) -> float:
        """Return the seconds for which a broker may be waited for, infinite if it has answered all.

        :param begun: when this call asked it first, by ``time.monotonic()``. Default: now.
        """
        if (since := self._since.get(broker_id)) is None:
            return math.inf
        now = time.monotonic()
        return max(since + self.seconds, (now if begun is None else begun) + LAST_TRY) - now

    async def wait(self, answer: Awaitable[T], broker_id: BrokerId | None) -> T:
        """Wait for an answer as long as a silent broker may be waited for. Raises ``ConnectionFailedError`` after that.

        The answer of another broker has a timeout of its own.

        :param broker_id: the broker; ``None`` if it is not known yet.
        """
        if broker_id is None:
            return await answer
        self.asked(broker_id)
        try:
            async with asyncio.timeout(self.left(broker_id) if self.is_silent(broker_id) else None):
                found = await answer
        except TimeoutError as error:
            raise ConnectionFailedError(f"broker {broker_id}", "it answers nothing, as in the calls before") from error
        self.answered(broker_id)
        return found
