"""The lease in memory: held until a test says otherwise."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from airflow_kafka_groups.change.lease import LeaseGuard
from airflow_kafka_groups.exceptions import KafkaGroupsError, LeaseLostError
from airflow_kafka_groups.kafka.membership.lease import MaintenanceLease
from tests.fakes.groups import CLUSTER_ID

WHY = "the group went on without this run"


async def at_once() -> None:
    """Return at once: without a lease, there is nobody to ask before a request leaves."""


class ScriptedLease:
    """A lease that is held until ``lose()``; the next ``doubts`` confirmations take a moment."""

    def __init__(self, generation: int = 7) -> None:
        self.group_id = "airflow-kafka-groups-lease"
        self.owner = "me"
        self.generation = generation
        self.member_id = "m1"
        self.kafka_cluster_id: str | None = CLUSTER_ID
        self.term = 1
        self.seconds = 5.0
        self.confirmed = 0
        self.doubts = 0
        self.proved = 0
        self.paused = False
        """Whether the worker was paused with all of its clocks: the lease seems to be held, and is not."""

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

    async def prove(self, within: float) -> None:
        self.proved += 1
        if self.paused:
            self.lose()
        self.check()


class FakeLease:
    """The cluster's lease in memory, behind ``KafkaGroupsHook.lease``.

    Whoever asks gets it, unless ``refused`` is the error to raise; ``asked`` has the arguments of each request.
    """

    def __init__(self) -> None:
        self.lease = ScriptedLease()
        self.refused: KafkaGroupsError | None = None
        self.asked: list[dict[str, Any]] = []
        self.given_back = 0

    @asynccontextmanager
    async def take(self, **asked: Any) -> AsyncIterator[LeaseGuard]:
        self.asked.append(asked)
        if self.refused is not None:
            raise self.refused
        yield LeaseGuard(cast("MaintenanceLease", self.lease))
        self.given_back += 1
