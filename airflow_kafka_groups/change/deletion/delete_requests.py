"""The requests that delete what a reading found safe, and what their answers mean: DeleteGroups, or OffsetDelete.

Only the coordinators that were read are asked: one that was replaced without knowing it, such as a broker that stood
still for some seconds, answers with what it knew before, and its successor would delete what lives.
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
from airflow_kafka_groups.kafka.models import ELIGIBLE_TYPES, NAMED_TYPES, GroupOffsets, ShareGroupOffsets
from airflow_kafka_groups.ledger.outcomes import PARTLY_DELETED, GroupOutcome, Outcome, Reason, kept, of_deletion
from airflow_kafka_groups.ledger.plan_rows import Target

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka import AdminClient


Ready = Callable[[], Awaitable[None]]
"""Awaited right before requests leave. Raises ``KafkaGroupsError`` if none may."""

_AT_ONCE = 20


async def delete_safe(
    admin: AdminClient, reading: ChunkReading, send_within: float, ready: Ready
) -> GroupResults[None]:
    """Delete what is safe. What was read a moment ago also says how much the broker will have to write.

    No request leaves later than after these seconds. Raises ``KafkaGroupsError``, also that of ``ready``.
    """
    if any(target.topic is not None for target in reading.expected):
        return await _delete_topics(admin, reading, clock.now() + send_within, ready)
    send_by, done, may_be_sent = clock.now() + send_within, list[GroupResult[None]](), False

    async def send() -> None:
        nonlocal may_be_sent
        await ready()
        may_be_sent = True

    for types in (ELIGIBLE_TYPES, NAMED_TYPES):  # a group that became one of the others meanwhile is not deleted
        named = types is NAMED_TYPES
        names = [target.name for target in reading.expected if (target.group_type in NAMED_TYPES) is named]
        if not names:
            continue
        may_be_sent = False
        try:
            results = await admin.delete_consumer_groups(
                names,
                offsets={name: reading.safe[name] for name in names},
                types=types,
                send_within=send_within,
                coordinators=reading.coordinators,
                before_sending=send,
            )
            done += results.values()
            send_within = max(send_by - clock.now(), 0.0)
        except KafkaGroupsError as error:
            if not done:
                raise
            # What was answered before stands.
            lost = OutcomeUnknownError(str(error)) if may_be_sent else NotSentError(str(error))
            done += (GroupResult[None](name, None, lost) for name in names)
    return GroupResults(done)


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

    :param name: what was to be deleted, by its name in the journal.
    :param deleted: for what that was asked.
    """
    if isinstance(deleted, ShareGroupOffsets) and isinstance(error, BrokerError) and not is_not_found(error):
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
            return GroupOutcome(group_id=name, outcome=Outcome.GONE, code=Reason.GONE.value, reason=why)
        if len(codes) == 1 and codes != {""}:
            return of_deletion(name, next(iter(errors.values())))
    reason = f"some of its offsets may be deleted: {error}"
    return GroupOutcome(group_id=name, outcome=Outcome.UNKNOWN, code=PARTLY_DELETED, reason=reason)
