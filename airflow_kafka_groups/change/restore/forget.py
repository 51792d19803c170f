"""Delete committed offsets that are on record. Groups are read again right before: what was committed since stays."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from airflow_kafka_groups.change.deletion.request import MAX_READ_AGE_SECONDS
from airflow_kafka_groups.change.restore.change_offsets import ChangeTerms, Earlier, OffsetRequest, first_try
from airflow_kafka_groups.change.restore.earlier_tries import DELETION, in_topics
from airflow_kafka_groups.exceptions import (
    ConfigurationError,
    GroupsFailedError,
    KafkaGroupsError,
    MaintenanceError,
    MissingAnswerError,
    OutcomeUnknownError,
)
from airflow_kafka_groups.kafka.cluster import clock
from airflow_kafka_groups.kafka.models import GroupDescription, GroupType, TopicPartition
from airflow_kafka_groups.ledger.proposed_changes import Change, ChangeOutcome, ChangeResult, Commits, commits_in
from airflow_kafka_groups.observe.log_ends import Unread
from airflow_kafka_groups.observe.patterns import check_group_ids
from airflow_kafka_groups.observe.readings import GroupReading, committed_of, read_groups
from airflow_kafka_groups.observe.snapshot.subscriptions import topics_seen
from airflow_kafka_groups.storage.layout import Layout

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient


_AT_ONCE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsetsRequest(OffsetRequest):
    """Delete the committed offsets that groups have of some topics (KIP-496); the groups are kept.

    :param group_ids: the groups, without duplicates.
    :param topics: the topics, by their exact names.

    A group that is kept fails, since its offsets are to be gone afterwards.
    """

    what: ClassVar[str] = DELETION
    may_be_absent: ClassVar[bool] = False
    group_ids: Sequence[str]
    topics: Sequence[str]

    def __post_init__(self) -> None:
        check_group_ids(self.group_ids)
        if not self.topics or isinstance(self.topics, str):
            raise ConfigurationError("topics", self.topics, "must be a list of names, with one at least")

    async def propose(self, admin: MaintenanceClient, layout: Layout, earlier: Earlier = first_try) -> list[Change]:
        """Return what would be deleted, as the offsets before. Raises ``GroupsFailedError`` if one cannot be read."""
        read = await committed_of(admin, self.group_ids)
        if unread := {group_id: result.error for group_id, result in read.items() if result.error is not None}:
            raise GroupsFailedError(unread, len(self.group_ids))
        of_topics = in_topics(self.topics)
        return [
            Change(
                group_id=group_id,
                before={at: value for at, value in commits_in(read[group_id].unwrap()).items() if of_topics(at)},
            )
            for group_id in self.group_ids
        ]

    async def apply(
        self, admin: MaintenanceClient, changes: Sequence[Change], terms: ChangeTerms
    ) -> list[ChangeResult]:
        """Delete the offsets before."""
        room, done = asyncio.Semaphore(_AT_ONCE), list[str]()

        async def forget(change: Change) -> ChangeResult:
            async with room:
                outcome, reason = await _forget(admin, change, dry_run=terms.dry_run)
            done.append(change.group_id)
            terms.progress("delete offsets", len(done), len(changes))
            is_set = outcome in (ChangeOutcome.CHANGED, ChangeOutcome.WOULD_CHANGE)
            partitions = len(change.before) if is_set else 0
            return ChangeResult(group_id=change.group_id, outcome=outcome, reason=reason, partitions=partitions)

        return await asyncio.gather(*map(forget, changes))


async def _forget(admin: MaintenanceClient, change: Change, *, dry_run: bool) -> tuple[ChangeOutcome, str]:
    """Delete the recorded offsets of a group, and return what became of it.

    It is kept where no request has named any offset of it: later tries must not count it as deleted.
    """
    group_id, recorded, send_by = change.group_id, change.before, clock.now() + MAX_READ_AGE_SECONDS
    if change.kept is None and not recorded:
        return ChangeOutcome.UNCHANGED, "it has no committed offsets there"
    try:
        if change.kept is not None:
            raise MaintenanceError(change.kept)
        group, there = _unmoved(recorded, (await read_groups(admin, [group_id]))[group_id])
    except KafkaGroupsError as error:
        return ChangeOutcome.FAILED if dry_run else ChangeOutcome.KEPT, Unread(error)
    if dry_run:
        return ChangeOutcome.WOULD_CHANGE, "its offsets can be deleted"
    try:
        if there:
            send_within = max(send_by - clock.now(), 0.0)
            await admin.delete_consumer_group_offsets(
                group_id, there, send_within=send_within, coordinator=group.coordinator
            )
        read = (await committed_of(admin, [group_id]))[group_id]
    except KafkaGroupsError as error:
        lost = isinstance(error, OutcomeUnknownError)
        return ChangeOutcome.UNKNOWN if lost else ChangeOutcome.FAILED, str(error)
    if read.value is None:
        return ChangeOutcome.FAILED, f"its offsets could not be read back: {read.error}"
    if left := recorded.keys() & commits_in(read.value).keys():
        return ChangeOutcome.FAILED, f"{len(left)} partition(s) have a committed offset still, or again"
    return ChangeOutcome.CHANGED, "deleted and verified"


def _unmoved(recorded: Commits, reading: GroupReading) -> tuple[GroupDescription, list[TopicPartition]]:
    """Return the description of a group, and which of the recorded offsets it still has.

    Raises for a share group, if its offsets have moved, and if a member reads a topic, or may do so. Brokers refuse
    only what a member subscribes to: not what was assigned to one that subscribes to nothing of it.
    """
    if reading.description is None or reading.offsets is None:
        raise MissingAnswerError("its coordinator returned no result")
    group, now = reading.description.unwrap(), commits_in(reading.offsets.unwrap())
    topics = {where.topic for where in recorded}
    if group.type is GroupType.SHARE:
        raise MaintenanceError("it is a share group: its start offsets are deleted with the group only, not by topic")
    if read := topics_seen(group).intersection(topics):
        raise MaintenanceError(f"a member reads {min(read)}: nothing of it was deleted. Stop its consumers first")
    if any(value != recorded.get(where) for where, value in now.items() if where.topic in topics):
        raise MaintenanceError("its offsets have moved since they were recorded: nothing of it was deleted")
    return group, [where for where in recorded if where in now]
