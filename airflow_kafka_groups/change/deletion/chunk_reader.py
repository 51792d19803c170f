"""The reading of a chunk right before it is deleted: describe its groups, read their offsets, decide about each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_kafka_groups.change.backup.file import groups_of
from airflow_kafka_groups.change.deletion.recheck import decide
from airflow_kafka_groups.exceptions import KafkaGroupsError, MaintenanceError
from airflow_kafka_groups.kafka.admin.results import GroupListings
from airflow_kafka_groups.kafka.models import BrokerId, GroupOffsets, TopicPartition
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Outcome, Reason, kept
from airflow_kafka_groups.ledger.plan_rows import Target
from airflow_kafka_groups.ledger.run_records import PROOF_OF_LIFE
from airflow_kafka_groups.observe.fingerprint import OFFSET_COLUMNS, committed_partitions, fingerprint
from airflow_kafka_groups.observe.readings import read_groups
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
from airflow_kafka_groups.storage.layout import Layout

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka import AdminClient


Judged = Callable[[Collection[str]], Mapping[str, GroupOffsets]]
"""Returns the offsets by which groups were judged, as far as they are known. Raises ``KafkaGroupsError``."""

_SHOWN = 3


def offsets_in_snapshot(layout: Layout, snapshot_id: str, group_ids: Collection[str]) -> dict[str, GroupOffsets]:
    """Return the offsets that groups had in a snapshot. Raises ``SnapshotError`` and ``StorageError``."""
    found: dict[str, GroupOffsets] = {}
    for block in SnapshotReader(layout, snapshot_id).blocks(group_ids, (*OFFSET_COLUMNS, "log_start", "log_end")):
        entries = [Target(group_id, "", "", "") for group_id in block.group_ids]
        found |= {group.entry.group_id: group.offsets for group in groups_of(block, entries)}
    return found


def by_unseen_offsets(judged: Judged, changed: Collection[tuple[Target, GroupOffsets]]) -> dict[str, GroupOutcome]:
    """Return the outcomes of groups that lack offsets and are otherwise as they were judged.

    Where that is not known, or any other offset moved, a group is left out.

    :param changed: groups whose fingerprint differs, with their offsets now.
    """
    of_groups = ((group, now) for group, now in changed if group.topic is None)
    fewer = {group.group_id: (group, now) for group, now in of_groups if committed_partitions(now) < group.partitions}
    try:
        known = judged(list(fewer)) if fewer else {}
    except KafkaGroupsError:
        return {}
    return {
        group_id: kept(group_id, Reason.OFFSETS_UNSEEN, _sentence(topics))
        for group_id, (group, now) in fewer.items()
        if (then := known.get(group_id)) is not None
        and fingerprint(then) == group.fingerprint
        and (topics := unseen_topics(then, now))
    }


def unseen_topics(then: GroupOffsets, now: GroupOffsets) -> set[str]:
    """Return the topics that lack offsets; none if any other offset differs."""
    before, found = _rows(then), _rows(now)
    return {at.topic for at in before.keys() - found.keys()} if found.items() <= before.items() else set()


def _rows(offsets: GroupOffsets) -> dict[TopicPartition, tuple[int, int, str]]:
    every = ((part.topic, row) for part in offsets.topics for row in part.rows())
    return {TopicPartition(topic, row[0]): (row[1], max(row[2], -1), row[3]) for topic, row in every if row[1] >= 0}


def _sentence(topics: Collection[str]) -> str:
    names = sorted(topics)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    shown = ", ".join(map(repr, names[:_SHOWN]))
    return f"its offsets in {len(names)} topic(s) are no longer seen: {shown}{more}: deleted, or hidden from this user"


_BETTER_REASONS = PROOF_OF_LIFE - {Reason.CHANGED_KIND}
_HIDDEN_SINCE = (
    "this user may not describe all topics any more, and brokers omit the offsets of other topics without notice: "
    "allow Describe on all topics, and clear the task"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkReading:
    """What was read of a chunk and decided by it.

    :param send_by: when it is too old to delete by, on the request's clock; counted from before the first question.
    :param read_at: when it was complete, on the same clock.
    :param safe: what may be deleted, with the offsets for which the brokers will have to write.
    :param coordinators: the brokers that described these groups, by group id.
    :param expected: what it has to look like in another reading.
    """

    send_by: float
    read_at: float
    safe: Mapping[str, GroupOffsets]
    coordinators: Mapping[str, BrokerId]
    expected: Sequence[Target]
    held: Sequence[GroupOutcome]


class ChunkReader:
    """Reads chunks, and decides about their targets, which go by their names in the journal.

    :param listings: a complete listing of all groups, made at the start of this run.
    :param entries: what is backed up, by name; ``None`` for a dry run without a backup.
    :param excluded: names that are kept whatever is found, with the reason; others may be added to it.
    :param max_age: the seconds for which a reading may be deleted by.
    :param may_be_hidden: delete also where topics may be hidden from this user. Default false.
    :param judged: returns the offsets by which groups were judged. Default: they are not known.
    """

    def __init__(
        self,
        admin: AdminClient,
        listings: GroupListings,
        entries: Mapping[str, Target] | None,
        excluded: Mapping[str, GroupOutcome],
        max_age: float,
        monotonic: Callable[[], float],
        may_be_hidden: bool = False,
        judged: Judged = lambda _: {},
    ) -> None:
        self._admin = admin
        self._listings = listings
        self._entries = entries
        self._excluded = excluded
        self._max_age = max_age
        self._monotonic = monotonic
        self._may_be_hidden = may_be_hidden
        self._judged = judged

    async def read(self, chunk: Sequence[Target]) -> ChunkReading:
        """Read the groups of a chunk and decide about each of its names. Raises ``KafkaGroupsError``."""
        send_by = self._monotonic() + self._max_age
        group_ids = list(dict.fromkeys(target.group_id for target in chunk))
        readings = await read_groups(self._admin, group_ids, self._listings)
        # Asked afterwards: a right that is taken away during a run would leave a sign of life out of this reading.
        if not (self._may_be_hidden or await self._admin.sees_all_topics()):
            raise MaintenanceError(_HIDDEN_SINCE)
        entries = self._entries or {}
        decisions = {
            target.name: decide(
                target,
                readings[target.group_id],
                entries.get(target.name),
                needs_backup=self._entries is not None,
            )
            for target in chunk
        }
        moved = [target for target in chunk if decisions[target.name].code == Reason.MOVED]
        now = [(target, readings[target.group_id].committed) for target in moved]
        changed = [(target, read) for target, read in now if read is not None]
        decisions |= await asyncio.to_thread(by_unseen_offsets, self._judged, changed)
        safe: dict[str, GroupOffsets] = {}
        coordinators: dict[str, BrokerId] = {}
        expected, held = list[Target](), list[GroupOutcome]()
        for target in chunk:
            name, reading = target.name, readings[target.group_id]
            decision = decisions[name]
            # A restored group has another protocol type, too: that it was deleted before is the better reason then.
            if decision.outcome is not Outcome.GONE and decision.code not in _BETTER_REASONS:
                decision = self._excluded.get(name, decision)
            if decision.outcome is Outcome.WOULD_DELETE and reading.committed is not None and reading.group is not None:
                safe[name] = target.part_of(reading.committed)
                coordinators[target.group_id] = reading.group.coordinator
                expected.append(target)
            else:
                held.append(decision)
        return ChunkReading(
            send_by=send_by,
            read_at=self._monotonic(),
            safe=safe,
            coordinators=coordinators,
            expected=expected,
            held=held,
        )

    def spare(self, reading: ChunkReading) -> tuple[ChunkReading, list[GroupOutcome]]:
        """Return the reading without what was excluded since, and the outcomes of that."""
        expected = [target for target in reading.expected if target.name not in self._excluded]
        if len(expected) == len(reading.expected):
            return reading, []
        safe = {target.name: reading.safe[target.name] for target in expected}
        outcomes = [self._excluded[name] for name in reading.safe if name not in safe]
        return replace(reading, safe=safe, expected=expected), outcomes
