"""The cluster's lease in memory, behind ``KafkaGroupsHook.lease``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.maintenance.deletion.lease import LeaseGuard
from tests.unit.maintenance.fake_lease import ScriptedLease


class FakeLease:
    """Give the lease to whoever asks, unless ``refused`` says why not; ``asked`` notes with what."""

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
        yield LeaseGuard(self.lease)
        self.given_back += 1
