"""What is done with the groups of a chunk: how they are read, deleted, and what an answer means."""

from __future__ import annotations

from typing import ClassVar

from airflow_kafka_groups.change.deletion.chunk_reader import ChunkReader, ChunkReading
from airflow_kafka_groups.change.deletion.recheck import SAFE, Decision
from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.kafka.admin.results import GroupResults
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, of_deletion


class ChunkWork(ChunkReader):
    """The deletion of complete groups, a chunk at a time; subclasses delete parts. Names are those of the journal."""

    safe: ClassVar[Decision] = SAFE
    """The decision by which something is deleted."""

    async def delete(self, reading: ChunkReading, send_within: float) -> GroupResults[None]:
        """Delete what is safe. What was read a moment ago also says how much the broker will have to write.

        Only the coordinators that were read are asked: one that was replaced without knowing it, such as a broker that
        stood still for some seconds, answers with what it knew before, and its successor would delete what lives.

        No request leaves later than after these seconds. Raises ``KafkaGroupsError``.
        """
        safe = reading.safe
        return await self._admin.delete_consumer_groups(
            list(safe), offsets=safe, send_within=send_within, coordinators=reading.coordinators
        )

    def outcome(self, name: str, error: KafkaGroupsError | None) -> GroupOutcome:
        """Return what an answer means."""
        return of_deletion(name, error)
