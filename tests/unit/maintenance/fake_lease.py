"""A lease that is lost when a test says so."""

from __future__ import annotations

import asyncio

from airflow_kafka_groups.exceptions import LeaseLostError

WHY = "the group went on without this run"


class ScriptedLease:
    """Be held until ``lose()``; ``doubt_for`` confirmations come only after a moment's wait."""

    def __init__(self, generation: int = 7) -> None:
        self.group_id = "airflow-kafka-groups-lease"
        self.owner = "me"
        self.generation = generation
        self.member_id = "m1"
        self.term = 1
        self.seconds = 5.0
        self.confirmed = 0
        self.doubts = 0

    @property
    def remaining(self) -> float:
        return self.seconds

    def lose(self) -> None:
        self.seconds = 0.0

    def check(self, at_least: float = 0.0) -> None:
        if self.seconds <= at_least:
            raise LeaseLostError(self.group_id, WHY)

    async def confirm(self, at_least: float = 0.0) -> None:
        self.confirmed += 1
        if self.doubts:
            self.doubts -= 1
            await asyncio.sleep(0)
            self.seconds = 5.0
        self.check(at_least)
