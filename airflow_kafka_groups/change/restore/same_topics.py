"""Whether topics are still those of a backup, while its offsets are committed: a restore of many groups takes minutes.

A recreated topic has another id, and an old offset refers to another record there, or to none.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from airflow_kafka_groups.change.restore.current_logs import recreated_topics
from airflow_kafka_groups.change.restore.why_kept import Unread
from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.kafka.cluster import clock
from airflow_kafka_groups.ledger.changes import Change, ChangeOutcome, ChangeResult, partition_name
from airflow_kafka_groups.observe.protocols import BackupAdmin

log = logging.getLogger(__name__)

_MAX_AGE_SECONDS = 5.0
"""How old a look at the ids may be when a chunk of groups is committed by it."""


class SameTopics:
    """The topics of changes, which must have the ids that the changes name."""

    def __init__(self, admin: BackupAdmin, changes: Sequence[Change]) -> None:
        self._admin = admin
        self._ids: dict[str, str] = {}
        for ids in {id(change.topic_ids): change.topic_ids for change in changes}.values():
            self._ids.update(ids)
        self._looking = asyncio.Lock()
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

        :param results: one for each change, in order.
        """
        if not self._ids or all(result.outcome is not ChangeOutcome.CHANGED for result in results):
            return results
        try:
            recreated = await self._look(0.0)
        except KafkaGroupsError as error:
            log.warning("%s after the commits", _unknown(error))
            return [_unverified(result, error) for result in results]
        if not recreated:  # as nearly always: no look at each offset
            return results
        return [_failed(change, result, recreated) for change, result in zip(changes, results, strict=True)]

    async def _look(self, max_age: float) -> Mapping[str, str]:
        async with self._looking:
            now = clock.now()
            if now - self._looked_at > max_age:
                self._recreated = await recreated_topics(self._admin, self._ids)
                self._looked_at = now
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


def _unverified(result: ChangeResult, error: KafkaGroupsError) -> ChangeResult:
    if result.outcome is not ChangeOutcome.CHANGED:
        return result
    return replace(result, outcome=ChangeOutcome.UNKNOWN, reason=f"committed, but {_unknown(error)}: run it again")


def _failed(change: Change, result: ChangeResult, recreated: Mapping[str, str]) -> ChangeResult:
    if result.outcome is not ChangeOutcome.CHANGED:
        return result
    written = (
        where for where in change.after if where.topic in recreated and partition_name(where) not in result.skipped
    )
    committed = {where.topic for where in written}
    if not committed:
        return result
    topic = min(committed)
    return replace(
        result,
        outcome=ChangeOutcome.FAILED,
        reason=f"{recreated[topic]}, while offsets of {topic} were committed: reset the group there",
    )
