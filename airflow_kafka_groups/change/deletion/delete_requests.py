"""The requests that delete what a reading found safe, and what their answers mean: DeleteGroups, or OffsetDelete.

Only the coordinators that were read are asked: the successor of one that stood still would delete what lives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from airflow_kafka_groups.change.deletion.chunk_reader import ChunkReading
from airflow_kafka_groups.exceptions import (
    BrokerError,
    KafkaGroupsError,
    LeaseLostError,
    NotSentError,
    OutcomeUnknownError,
    PartitionsFailedError,
)
from airflow_kafka_groups.kafka.admin.results import GroupResult, GroupResults, is_not_found
from airflow_kafka_groups.kafka.cluster import clock
from airflow_kafka_groups.kafka.models import ELIGIBLE_TYPES, NAMED_TYPES, GroupOffsets, GroupType, ShareGroupOffsets
from airflow_kafka_groups.ledger.outcomes import PARTLY_DELETED, GroupOutcome, Outcome, Reason, kept, of_deletion
from airflow_kafka_groups.ledger.plan_rows import Target

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka import AdminClient


Ready = Callable[[], Awaitable[None]]
"""Awaited right before requests leave. Raises ``KafkaGroupsError`` if none may."""

_AT_ONCE = 20


def types_of(target: Target) -> frozenset[GroupType]:
    """Return which types a request may delete that names a target. No request names groups of two such sets."""
    return frozenset({GroupType(target.group_type)}) if target.group_type in NAMED_TYPES else ELIGIBLE_TYPES


async def delete_safe(
    admin: AdminClient, reading: ChunkReading, send_within: float, ready: Ready
) -> GroupResults[None]:
    """Delete what is safe. What was read a moment ago also says how much the broker will have to write.

    No request leaves later than after these seconds. Raises ``KafkaGroupsError``, also that of ``ready``.
    """
    if any(target.topic is not None for target in reading.expected):
        return await _delete_topics(admin, reading, clock.now() + send_within, ready)
    (types,) = {types_of(target) for target in reading.expected}
    return await admin.delete_consumer_groups(
        list(reading.safe),
        offsets=reading.safe,
        types=types,  # a group that became one of the others meanwhile is not deleted
        send_within=send_within,
        coordinators=reading.coordinators,
        before_sending=ready,
    )


async def _delete_topics(admin: AdminClient, reading: ChunkReading, send_by: float, ready: Ready) -> GroupResults[None]:
    """Delete the offsets of each topic, with a request for each.

    ``ready`` is asked before each request: the worker may be paused between two of them.
    """
    room = asyncio.Semaphore(_AT_ONCE)

    async def delete(target: Target) -> GroupResult[None]:
        async with room:
            try:
                await _require(ready)
                await admin.delete_consumer_group_offsets(
                    target.group_id,
                    list(reading.safe[target.name]),
                    send_within=max(send_by - clock.now(), 0.0),
                    coordinator=reading.coordinators[target.group_id],
                )
            except KafkaGroupsError as error:
                return GroupResult(target.name, None, error)
        return GroupResult(target.name)

    return GroupResults(await asyncio.gather(*map(delete, reading.expected)))


async def _require(ready: Ready) -> None:
    try:
        await ready()
    except LeaseLostError as error:  # of this topic, nothing was sent
        raise NotSentError(str(error)) from None


def outcome_of(name: str, deleted: GroupOffsets, error: KafkaGroupsError | None) -> GroupOutcome:
    """Return what the answer to a deletion means.

    :param deleted: for what that was asked.
    """
    doubtful = isinstance(error, (BrokerError, NotSentError, OutcomeUnknownError))  # not sent, perhaps, once more
    if isinstance(deleted, ShareGroupOffsets) and doubtful and not is_not_found(error):
        # Brokers delete what it has read first, and look then whether a member has joined meanwhile.
        reason = f"it may have lost its start offsets: {error}. If it is there, restore them from the backup"
        return GroupOutcome(group_id=name, outcome=Outcome.UNKNOWN, code=PARTLY_DELETED, reason=reason)
    if not isinstance(error, PartitionsFailedError):
        return of_deletion(name, error)
    errors = error.partition_errors
    codes = {each.name if isinstance(each, BrokerError) else "" for each in errors.values()}
    if len(errors) == len(deleted):
        if codes == {"GROUP_SUBSCRIBED_TO_TOPIC"}:
            return kept(name, Reason.CAME_BACK, "the broker says that a member subscribes to it")
        if codes == {"UNKNOWN_TOPIC_OR_PARTITION"}:
            why = "the topic does not exist any more: brokers delete its offsets"
            return kept(name, Reason.GONE, why)
        if len(codes) == 1 and codes != {""}:
            return of_deletion(name, next(iter(errors.values())))
    reason = f"some of its offsets may be deleted: {error}"
    return GroupOutcome(group_id=name, outcome=Outcome.UNKNOWN, code=PARTLY_DELETED, reason=reason)
