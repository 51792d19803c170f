"""Delete committed offsets that are on record. Groups are read once more right before: what was committed since stays.

The record is all that brings the offsets back, and a client without membership may commit at any time. So each group is
deleted from within some seconds of its reading, and only by the broker that described it (``admin.client.changes``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
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
from airflow_kafka_groups.kafka.admin.results import GroupResult
from airflow_kafka_groups.kafka.cluster import clock
from airflow_kafka_groups.kafka.models import GroupDescription, GroupOffsets, GroupType, TopicPartition
from airflow_kafka_groups.ledger.proposed_changes import Change, ChangeOutcome, ChangeResult, Commits, commits_in
from airflow_kafka_groups.observe.log_ends import Unread
from airflow_kafka_groups.observe.patterns import check_group_ids
from airflow_kafka_groups.observe.readings import GroupReading, committed_of, read_groups
from airflow_kafka_groups.observe.snapshot.subscriptions import topics_seen
from airflow_kafka_groups.storage.layout import Layout

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient


_AT_ONCE = 20

Failures = dict[str, KafkaGroupsError]


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
        left = {change.group_id for change in changes if change.kept is not None}
        failed: Failures = {each.group_id: MaintenanceError(each.kept) for each in changes if each.kept is not None}
        recorded = {
            change.group_id: change.before for change in changes if change.before and change.group_id not in left
        }
        if terms.dry_run:
            described = await admin.describe_consumer_groups(list(recorded)) if recorded else {}
            for group_id, commits in recorded.items():
                try:
                    _unread(commits, described.get(group_id))
                except KafkaGroupsError as error:
                    failed[group_id] = error
        else:
            group_ids = list(recorded)
            for start in range(0, len(group_ids), _AT_ONCE):
                chunk = {group_id: recorded[group_id] for group_id in group_ids[start : start + _AT_ONCE]}
                failed |= await _forget_chunk(admin, chunk, left)
                terms.progress("delete offsets", start + len(chunk), len(group_ids))
        return [
            _result(change, failed.get(change.group_id), terms.dry_run, change.group_id in left) for change in changes
        ]


def _result(change: Change, error: KafkaGroupsError | None, dry_run: bool, is_left: bool) -> ChangeResult:
    """Return the result of a group, also of one that has no offset there.

    :param is_left: whether no request has named any offset of it: later tries must not count it as deleted.
    """
    reason, partitions = str(error), 0
    if is_left and not dry_run:
        outcome, reason = ChangeOutcome.KEPT, Unread(error)
    elif error is not None:
        outcome = ChangeOutcome.UNKNOWN if isinstance(error, OutcomeUnknownError) else ChangeOutcome.FAILED
    elif not change.before:
        outcome, reason = ChangeOutcome.UNCHANGED, "it has no committed offsets there"
    elif dry_run:
        outcome, reason, partitions = ChangeOutcome.WOULD_CHANGE, "its offsets can be deleted", len(change.before)
    else:
        outcome, reason, partitions = ChangeOutcome.CHANGED, "deleted and verified", len(change.before)
    return ChangeResult(group_id=change.group_id, outcome=outcome, reason=reason, partitions=partitions)


async def _forget_chunk(admin: MaintenanceClient, recorded: Mapping[str, Commits], unasked: set[str]) -> Failures:
    """Delete recorded offsets, and return the groups that failed, each with the reason.

    :param unasked: gets those of them of which no request has named any offset.
    """
    send_by = clock.now() + MAX_READ_AGE_SECONDS
    readings = await read_groups(admin, list(recorded))

    async def forget(group_id: str) -> KafkaGroupsError | None:
        try:
            group, there = _unmoved(recorded[group_id], readings[group_id])
        except KafkaGroupsError as error:
            unasked.add(group_id)
            return error
        try:
            if there:
                await admin.delete_consumer_group_offsets(
                    group_id, there, send_within=max(send_by - clock.now(), 0.0), coordinator=group.coordinator
                )
        except KafkaGroupsError as error:
            return error
        return None

    errors = await asyncio.gather(*map(forget, recorded))
    failed = {group_id: error for group_id, error in zip(recorded, errors, strict=True) if error is not None}
    done = [group_id for group_id in recorded if group_id not in failed]
    left = await committed_of(admin, done) if done else {}
    for group_id in done:
        if (error := _why_left(recorded[group_id], left[group_id])) is not None:
            failed[group_id] = error
    return failed


def _unmoved(recorded: Commits, reading: GroupReading) -> tuple[GroupDescription, list[TopicPartition]]:
    """Return the description of a group, and which of the recorded offsets it still has; raise if they have moved."""
    group = _unread(recorded, reading.description)
    if reading.offsets is None:
        raise MissingAnswerError("its offsets did not come")
    now = commits_in(reading.offsets.unwrap())
    topics = {where.topic for where in recorded}
    if any(value != recorded.get(where) for where, value in now.items() if where.topic in topics):
        raise MaintenanceError("its offsets have moved since they were recorded: nothing of it was deleted")
    return group, [where for where in recorded if where in now]


def _unread(recorded: Commits, described: GroupResult[GroupDescription] | None) -> GroupDescription:
    """Return the description of a group; raise for a share group, and if a member reads a topic, or may do so.

    Brokers refuse only what a member subscribes to: not what was assigned to one that subscribes to nothing of it.
    """
    if described is None:
        raise MissingAnswerError("its coordinator returned no result")
    group = described.unwrap()
    if group.type is GroupType.SHARE:
        raise MaintenanceError("it is a share group: its start offsets are deleted with the group only, not by topic")
    if read := topics_seen(group).intersection(where.topic for where in recorded):
        raise MaintenanceError(f"a member reads {min(read)}: nothing of it was deleted. Stop its consumers first")
    return group


def _why_left(recorded: Commits, read: GroupResult[GroupOffsets]) -> KafkaGroupsError | None:
    if read.value is None:
        return MaintenanceError(f"its offsets could not be read back: {read.error}")
    left = recorded.keys() & commits_in(read.value).keys()
    return MaintenanceError(f"{len(left)} partition(s) have a committed offset still, or again") if left else None
