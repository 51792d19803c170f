"""What is done with the groups of a chunk: how they are read, deleted, and what an answer means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from airflow_kafka_groups.admin.results import GroupResults
from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.maintenance.deletion.chunk_reader import ChunkReader, ChunkReading
from airflow_kafka_groups.maintenance.deletion.outcomes import GroupOutcome, of_deletion, would_delete
from airflow_kafka_groups.maintenance.deletion.recheck import Expected
from airflow_kafka_groups.maintenance.protocols import GroupAdmin
from airflow_kafka_groups.models import GroupOffsets


class ChunkWork(Protocol):
    """What a deletion in chunks does with each of them. Names are those of the journal."""

    async def read(self, chunk: Sequence[Expected], /) -> ChunkReading:
        """Read a chunk and decide about each of its names. Raises ``KafkaGroupsError``."""

    def spare(self, reading: ChunkReading, /) -> tuple[ChunkReading, list[GroupOutcome]]:
        """Return the reading without what was excluded since, and the outcomes of that."""

    async def delete(self, safe: Mapping[str, GroupOffsets], send_within: float, /) -> GroupResults[None]:
        """Delete what is safe. No request leaves later than after these seconds. Raises ``KafkaGroupsError``."""

    def outcome(self, name: str, error: KafkaGroupsError | None, /) -> GroupOutcome:
        """Return what an answer means."""

    def would_delete(self, name: str, /) -> GroupOutcome:
        """Return the outcome of what only the dry run kept."""


class GroupWork:
    """The deletion of complete groups.

    :param admin: the client.
    :param reader: reads and decides.
    """

    def __init__(self, admin: GroupAdmin, reader: ChunkReader) -> None:
        self._admin = admin
        self._reader = reader

    async def read(self, chunk: Sequence[Expected]) -> ChunkReading:
        """Describe the groups, read their offsets, and decide about each."""
        return await self._reader.read(chunk)

    def spare(self, reading: ChunkReading) -> tuple[ChunkReading, list[GroupOutcome]]:
        """Return the reading without the groups that were excluded since, and the outcomes of these."""
        return self._reader.spare(reading)

    async def delete(self, safe: Mapping[str, GroupOffsets], send_within: float) -> GroupResults[None]:
        """Delete the groups. What was read a moment ago also says how much the broker will have to write."""
        return await self._admin.delete_consumer_groups(list(safe), offsets=safe, send_within=send_within)

    def outcome(self, name: str, error: KafkaGroupsError | None) -> GroupOutcome:
        """Return what an answer to DeleteGroups means."""
        return of_deletion(name, error)

    def would_delete(self, name: str) -> GroupOutcome:
        """Return the outcome of a group that only the dry run kept."""
        return would_delete(name)
