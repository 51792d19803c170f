"""What is done with the groups of a chunk: how they are read, deleted, and what an answer means."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from airflow_kafka_groups.admin.results import GroupResults
from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.maintenance.deletion.chunks.reader import ChunkReader
from airflow_kafka_groups.maintenance.deletion.outcomes import GroupOutcome, of_deletion, would_delete
from airflow_kafka_groups.maintenance.deletion.recheck import SAFE
from airflow_kafka_groups.models import GroupOffsets


class ChunkWork(ChunkReader, ABC):
    """What a deletion in chunks does with each of them, beside reading it. Names are those of the journal."""

    @abstractmethod
    async def delete(self, safe: Mapping[str, GroupOffsets], send_within: float) -> GroupResults[None]:
        """Delete what is safe. No request leaves later than after these seconds. Raises ``KafkaGroupsError``."""

    @abstractmethod
    def outcome(self, name: str, error: KafkaGroupsError | None) -> GroupOutcome:
        """Return what an answer means."""

    @abstractmethod
    def would_delete(self, name: str, *, backed_up: bool) -> GroupOutcome:
        """Return the outcome of what only the dry run kept."""


class GroupWork(ChunkWork):
    """The deletion of complete groups."""

    async def delete(self, safe: Mapping[str, GroupOffsets], send_within: float) -> GroupResults[None]:
        """Delete the groups. What was read a moment ago also says how much the broker will have to write."""
        return await self._admin.delete_consumer_groups(list(safe), offsets=safe, send_within=send_within)

    def outcome(self, name: str, error: KafkaGroupsError | None) -> GroupOutcome:
        """Return what an answer to DeleteGroups means."""
        return of_deletion(name, error)

    def would_delete(self, name: str, *, backed_up: bool) -> GroupOutcome:
        """Return the outcome of a group that only the dry run kept."""
        return would_delete(name, SAFE, backed_up=backed_up)
