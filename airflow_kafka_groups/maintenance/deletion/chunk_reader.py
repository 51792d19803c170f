"""The reading of a chunk right before it is deleted: describe its groups, read their offsets, decide about each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_kafka_groups.admin.results import GroupListings, GroupResult, GroupResults
from airflow_kafka_groups.maintenance.backup.groups import BackupEntry
from airflow_kafka_groups.maintenance.deletion.outcomes import GroupOutcome, of_decision
from airflow_kafka_groups.maintenance.deletion.recheck import Action, Decision, Expected, Reading, Reason, decide
from airflow_kafka_groups.maintenance.journal.history import PROOF_OF_LIFE
from airflow_kafka_groups.maintenance.protocols import GroupAdmin, read_offsets
from airflow_kafka_groups.models import GroupDescription, GroupOffsets


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkReading:
    """What was read of a chunk and decided by it.

    :param send_by: when it is too old to delete by, on the request's clock; counted from before the first question.
    :param read_at: when it was complete, on the same clock.
    :param safe: the groups that may be deleted, with what the brokers will have to write for them.
    :param expected: what these groups have to look like in another reading.
    :param held: the outcomes of the others.
    """

    send_by: float
    read_at: float
    safe: Mapping[str, GroupOffsets]
    expected: Sequence[Expected]
    held: Sequence[GroupOutcome]


class ChunkReader:
    """Reads chunks.

    :param listings: a complete listing of all groups, made at the start of this run.
    :param entries: what is backed up, by group id.
    :param excluded: groups that are kept whatever is found, with the reason; others may be added to it.
    :param max_age: the seconds for which a reading may be deleted by.
    :param monotonic: returns seconds that only grow.
    """

    def __init__(
        self,
        admin: GroupAdmin,
        listings: GroupListings,
        entries: Mapping[str, BackupEntry],
        excluded: Mapping[str, Decision],
        max_age: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._admin = admin
        self._listings = listings
        self._entries = entries
        self._excluded = excluded
        self._max_age = max_age
        self._monotonic = monotonic

    async def read(self, chunk: Sequence[Expected]) -> ChunkReading:
        """Read a chunk and decide about each of its groups. Raises ``KafkaGroupsError``."""
        send_by = self._monotonic() + self._max_age
        described, offsets = await read_groups(self._admin, [group.group_id for group in chunk])
        safe: dict[str, GroupOffsets] = {}
        expected, held = list[Expected](), list[GroupOutcome]()
        for group in chunk:
            group_id = group.group_id
            decision = self._decide(group, described.get(group_id), offsets.get(group_id))
            if decision.action is Action.DELETE:
                safe[group_id] = offsets[group_id].unwrap()
                expected.append(group)
            else:
                held.append(of_decision(group_id, decision))
        return ChunkReading(send_by=send_by, read_at=self._monotonic(), safe=safe, expected=expected, held=held)

    def spare(self, reading: ChunkReading) -> tuple[ChunkReading, list[GroupOutcome]]:
        """Return the reading without the groups that were excluded since, and the outcomes of these."""
        return spared(reading, self._excluded)

    def _decide(
        self,
        group: Expected,
        description: GroupResult[GroupDescription] | None,
        offsets: GroupResult[GroupOffsets] | None,
    ) -> Decision:
        listing = self._listings.get(group.group_id)
        reading = Reading(listing=listing, description=description, offsets=offsets)
        decision = decide(group, reading, self._entries.get(group.group_id))
        # A restored group has another protocol type, too: that it was deleted before is the better reason then.
        if decision.action is Action.GONE or decision.code in PROOF_OF_LIFE - {Reason.CHANGED_KIND}:
            return decision
        return self._excluded.get(group.group_id, decision)


def spared(reading: ChunkReading, excluded: Mapping[str, Decision]) -> tuple[ChunkReading, list[GroupOutcome]]:
    """Return a reading without what is excluded by now, and the outcomes of that.

    :param reading: the reading.
    :param excluded: what is kept whatever is found, with the reason.
    """
    expected = [group for group in reading.expected if group.group_id not in excluded]
    if len(expected) == len(reading.expected):
        return reading, []
    safe = {group.group_id: reading.safe[group.group_id] for group in expected}
    outcomes = [of_decision(id_, excluded[id_]) for id_ in reading.safe if id_ not in safe]
    return replace(reading, safe=safe, expected=expected), outcomes


async def read_groups(
    admin: GroupAdmin, group_ids: list[str]
) -> tuple[GroupResults[GroupDescription], dict[str, GroupResult[GroupOffsets]]]:
    """Describe groups and read their offsets at the same time."""

    async def offsets() -> dict[str, GroupResult[GroupOffsets]]:
        return {result.group_id: result async for result in read_offsets(admin, group_ids, require_stable=True)}

    described, read = await asyncio.gather(admin.describe_consumer_groups(group_ids), offsets(), return_exceptions=True)
    if isinstance(described, BaseException):
        raise described
    if isinstance(read, BaseException):
        raise read
    return described, read
