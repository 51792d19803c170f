"""The groups and the topics' logs as they are at a restore, compared with the backup's.

A restore of many groups takes minutes, so topics are compared while offsets are committed, too: in a recreated topic,
which has another id, an old offset refers to another record, or to none.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from airflow_kafka_groups.change.backup.file import Backup
from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.kafka.admin.results import is_not_found
from airflow_kafka_groups.kafka.cluster import clock
from airflow_kafka_groups.kafka.models import (
    GroupDescription,
    GroupState,
    GroupType,
    OffsetAndMetadata,
    ShareGroupOffsets,
    TopicPartition,
    has_eligible_kind,
)
from airflow_kafka_groups.ledger.proposed_changes import Change, ChangeOutcome, ChangeResult, commits_in, partition_name
from airflow_kafka_groups.observe.log_ends import Ends, Unread, log_ends
from airflow_kafka_groups.observe.readings import GroupReading, committed_of

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient


def unread_of(reasons: Iterable[str]) -> Unread | None:
    """Return the first reason that is nobody's decision: something could not be read."""
    return next((reason for reason in reasons if isinstance(reason, Unread)), None)


def unread_part(skipped: Mapping[str, str]) -> str | None:
    """Return which of the partitions that are left out of a change could not be read, the first one; or ``None``."""
    unread = ((where, reason) for where, reason in skipped.items() if isinstance(reason, Unread))
    return next((f"{where} was left out: {reason}" for where, reason in unread), None)


async def commits_of(
    admin: MaintenanceClient,
    group_ids: Sequence[str],
    unread: str = "its offsets cannot be read",
    *,
    shares: bool = True,
) -> dict[str, dict[TopicPartition, OffsetAndMetadata] | Unread]:
    """Return what each group has committed, or why that is not known.

    :param unread: the beginning of that reason.
    :param shares: whether a share group has what it starts at, which is no commit for another group. Default true.
    """
    found: dict[str, dict[TopicPartition, OffsetAndMetadata] | Unread] = {}
    for group_id, read in (await committed_of(admin, group_ids)).items():
        if read.value is None:
            found[group_id] = Unread(f"{unread}: {read.error}")
        else:
            found[group_id] = commits_in(read.value) if shares or not isinstance(read.value, ShareGroupOffsets) else {}
    return found


def why_kept(
    change: Change,
    reading: GroupReading | None,
    may_be_absent: bool = False,
) -> str | None:
    """Return why a group must not be changed, or ``None``: what was described and read of it matches the proposal."""
    described, now = (None, None) if reading is None else (reading.description, reading.offsets)
    if described is None or now is None:
        return Unread("its coordinator returned no result")
    absent = described.error is not None and is_not_found(described.error)
    if described.error is not None and not absent:
        return Unread(f"it cannot be described: {described.error}")
    if now.error is not None or now.value is None:
        return Unread(f"its offsets cannot be read: {now.error}")
    group = described.value
    if absent or group is None or group.state is GroupState.DEAD:
        if not may_be_absent:
            return "it does not exist"
    elif group.state is not GroupState.EMPTY or group.members:
        return f"state {group.state.value}, {len(group.members)} member(s)"
    elif (why := _why_not_taken(group, change.group_type)) is not None:
        return why
    elif change.alive is not None:
        return change.alive
    found = commits_in(now.value)
    if found == change.before:
        return None
    were_there = all(change.before.get(where) == value for where, value in found.items())
    # Nobody uses it: what is left of it is as it was, and the task has to fail.
    return Unread("offsets of it were deleted meanwhile: run it again") if were_there else "its offsets moved meanwhile"


def _why_not_taken(group: GroupDescription, offsets_of: str) -> str | None:
    """Return why a group takes no offsets of a type, ``None`` if it does. Those of streams groups are commits."""
    if GroupType.SHARE in (group.type, offsets_of):
        takes = group.type == offsets_of
    else:
        of_streams = group.type is GroupType.STREAMS and offsets_of == GroupType.STREAMS
        takes = of_streams or has_eligible_kind(group.type, group.protocol_type)
    if not takes:
        return f"it is a {group.type.value} group of the protocol {group.protocol_type!r}"
    if group.type is GroupType.SHARE and not group.restorable:
        return "its brokers cannot set the offsets of a share group: that takes Kafka 4.2"
    return None


_NOT_KNOWN = "not known when the offsets were read"


@dataclass(frozen=True, slots=True)
class CurrentLogs:
    """The logs as they are now.

    :param ends: (log start, log end) of each partition, or why they are not known.
    :param recreated: the topics that are not the backup's, with a message each.
    :param topic_ids: the ids that topics must still have when something is committed. Default: any.
    """

    ends: Ends
    recreated: Mapping[str, str]
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    def start(self, where: TopicPartition) -> int:
        """Return the log start of a partition, 0 if it is not known."""
        found = self.ends.get(where)
        return found[0] if isinstance(found, tuple) else 0

    def why_skipped(self, where: TopicPartition, offset: int, old_start: int, old_end: int) -> str | None:
        """Return why an offset cannot be restored, ``None`` if it can.

        :param old_start: the log start at the time of the backup, and ``old_end`` its end; -1 if that is not known.
        """
        if where.topic in self.recreated:
            return self.recreated[where.topic]
        found = self.ends.get(where, Unread("the log start and end are unknown"))
        if isinstance(found, str):
            return found
        start, end = found
        if end < old_end or start < old_start:
            shown = [None if known < 0 else known for known in (old_start, old_end)]
            return f"the topic was recreated or truncated: its log is {start} to {end} and was {shown[0]} to {shown[1]}"
        if not start <= offset <= end:
            return f"offset {offset} is outside the log, {start} to {end}"
        return None


async def current_logs(admin: MaintenanceClient, backup: Backup, partitions: Iterable[TopicPartition]) -> CurrentLogs:
    """Ask the brokers for the logs of partitions, and for the ids of the backup's topics."""
    wanted = list(partitions)
    ids = ids_of(backup, {where.topic for where in wanted})
    return CurrentLogs(await log_ends(admin, wanted), await recreated_topics(admin, ids), ids)


def ids_of(backup: Backup, topics: Iterable[str] = ()) -> dict[str, str]:
    """Return the ids that topics had at the time of a backup; none if it has no ids.

    :param topics: further topics of the backup. Default: none. Where others had an id, one without did not exist:
        brokers show a user no offsets of topics that this user may not describe.
    """
    return {**dict.fromkeys(sorted(topics), ""), **backup.topic_ids} if backup.topic_ids else {}


async def recreated_topics(admin: MaintenanceClient, ids: Mapping[str, str]) -> dict[str, str]:
    """Return the topics that have another id by now than before, with a message each; none without an id."""
    here = await admin.topic_ids(ids) if ids else {}
    return {
        topic: f"the topic was recreated: its id is {here[topic]} and was {before or _NOT_KNOWN}"
        for topic, before in ids.items()
        if here.get(topic, before) != before
    }


log = logging.getLogger(__name__)

_MAX_AGE_SECONDS = 5.0
"""How old a look at the ids may be when a chunk of groups is committed by it."""


class SameTopics:
    """The topics of changes, which must have the ids that the changes name."""

    def __init__(self, admin: MaintenanceClient, changes: Sequence[Change]) -> None:
        self._admin = admin
        self._ids: dict[str, str] = {}
        for ids in {id(change.topic_ids): change.topic_ids for change in changes}.values():
            self._ids.update(ids)
        self._looked_at = -math.inf
        self._recreated: Mapping[str, str] = {}

    async def without_recreated(self, chunk: Sequence[Change]) -> Sequence[Change]:
        """Return changes without the partitions of topics that were recreated; all are kept if that is not known."""
        if not self._ids:
            return chunk
        try:
            recreated = await self._look(_MAX_AGE_SECONDS)
        except KafkaGroupsError as error:
            return [replace(change, after={}, kept=change.kept or _unknown(error)) for change in chunk]
        return [_without(change, recreated) for change in chunk] if recreated else chunk

    async def fail_recreated(self, changes: Sequence[Change], results: list[ChangeResult]) -> list[ChangeResult]:
        """Return the results, of which those fail whose topics were recreated while they were committed.

        Where that cannot be read, nobody knows whether a committed offset is of the topic that is there now.
        """
        if not self._ids or all(result.outcome is not ChangeOutcome.CHANGED for result in results):
            return results
        try:
            recreated = await self._look(0.0)
        except KafkaGroupsError as error:
            log.warning("%s after the commits", _unknown(error))
            why = f"committed, but {_unknown(error)}: run it again"
            unverified = partial(replace, outcome=ChangeOutcome.UNKNOWN, reason=why)
            return [unverified(each) if each.outcome is ChangeOutcome.CHANGED else each for each in results]
        if not recreated:  # as nearly always: no look at each offset
            return results
        return [_failed(change, result, recreated) for change, result in zip(changes, results, strict=True)]

    async def _look(self, max_age: float) -> Mapping[str, str]:
        now = clock.now()
        if now - self._looked_at > max_age:
            self._recreated, self._looked_at = await recreated_topics(self._admin, self._ids), now
        return self._recreated


def _unknown(error: KafkaGroupsError) -> Unread:
    return Unread(f"whether its topics are those of the backup cannot be read: {error}")


def _without(change: Change, recreated: Mapping[str, str]) -> Change:
    gone = {where: recreated[where.topic] for where in change.after if where.topic in recreated}
    if not gone:
        return change
    after = {where: value for where, value in change.after.items() if where not in gone}
    kept = None if after else f"each of its topics was recreated: {next(iter(gone.values()))}"
    return replace(change, after=after, skipped={**change.skipped, **gone}, kept=change.kept or kept)


def _failed(change: Change, result: ChangeResult, recreated: Mapping[str, str]) -> ChangeResult:
    new = (where for where in change.after if where.topic in recreated and partition_name(where) not in result.skipped)
    committed = {where.topic for where in new}
    if result.outcome is not ChangeOutcome.CHANGED or not committed:
        return result
    topic = min(committed)
    reason = f"{recreated[topic]}, while offsets of {topic} were committed: reset the group there"
    return replace(result, outcome=ChangeOutcome.FAILED, reason=reason)
