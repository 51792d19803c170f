"""What is done with the groups of a chunk: how they are read, deleted, and what an answer means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from airflow_kafka_groups.admin.results import GroupResults
from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.maintenance.deletion.chunks.reader import ChunkReader
from airflow_kafka_groups.maintenance.deletion.outcomes import GroupOutcome, of_deletion
from airflow_kafka_groups.maintenance.deletion.recheck import SAFE, Decision
from airflow_kafka_groups.models import GroupOffsets


class ChunkWork(ChunkReader):
    """The deletion of complete groups, a chunk at a time; subclasses delete parts. Names are those of the journal."""

    safe: ClassVar[Decision] = SAFE
    """The decision by which something is deleted."""

    async def delete(self, safe: Mapping[str, GroupOffsets], send_within: float) -> GroupResults[None]:
        """Delete what is safe. What was read a moment ago also says how much the broker will have to write.

        No request leaves later than after these seconds. Raises ``KafkaGroupsError``.
        """
        return await self._admin.delete_consumer_groups(list(safe), offsets=safe, send_within=send_within)

    def outcome(self, name: str, error: KafkaGroupsError | None) -> GroupOutcome:
        """Return what an answer means."""
        return of_deletion(name, error)
