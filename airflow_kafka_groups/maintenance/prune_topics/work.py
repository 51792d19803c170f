"""How the topics of a chunk are read and deleted, what an answer means, and whether their offsets are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from airflow_kafka_groups.admin.results import GroupListings, GroupResult, GroupResults
from airflow_kafka_groups.cluster import clock
from airflow_kafka_groups.exceptions import BrokerError, KafkaGroupsError, PartitionsFailedError
from airflow_kafka_groups.maintenance.backup.groups import BackupEntry
from airflow_kafka_groups.maintenance.deletion.chunk_reader import ChunkReading, read_groups, spared
from airflow_kafka_groups.maintenance.deletion.outcomes import (
    PARTLY_DELETED,
    GroupOutcome,
    Outcome,
    kept,
    of_decision,
    of_deletion,
)
from airflow_kafka_groups.maintenance.deletion.recheck import Action, Decision, Expected, Reading, Reason
from airflow_kafka_groups.maintenance.deletion.verify import Verification
from airflow_kafka_groups.maintenance.fingerprint import committed_partitions
from airflow_kafka_groups.maintenance.journal.history import PROOF_OF_LIFE
from airflow_kafka_groups.maintenance.protocols import BackupAdmin, GroupAdmin
from airflow_kafka_groups.maintenance.prune_topics.prune_plan import PlannedTopic
from airflow_kafka_groups.maintenance.prune_topics.recheck import SAFE, decide_topic, offsets_of_topic
from airflow_kafka_groups.maintenance.snapshot.subscriptions import topics_read
from airflow_kafka_groups.models import GroupDescription, GroupOffsets, TopicPartition

_AT_ONCE = 20


class PruneAdmin(BackupAdmin, Protocol):
    """What a pruning needs beside ``BackupAdmin``."""

    async def delete_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], /, *, send_within: float | None = None
    ) -> None:
        """Delete a group's committed offsets of some partitions."""


class TopicWork:
    """The deletion of a group's offsets of single topics.

    :param admin: the client.
    :param topics: the planned topics, by their names in the journal.
    :param listings: a complete listing of all groups, made at the start of this run.
    :param entries: what is backed up, by name.
    :param excluded: topics that are kept whatever is found, with the reason.
    :param max_age: the seconds for which a reading may be deleted by.
    :param monotonic: returns seconds that only grow.
    """

    def __init__(
        self,
        admin: PruneAdmin,
        topics: Mapping[str, PlannedTopic],
        listings: GroupListings,
        entries: Mapping[str, BackupEntry],
        excluded: Mapping[str, Decision],
        max_age: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._admin = admin
        self._topics = topics
        self._listings = listings
        self._entries = entries
        self._excluded = excluded
        self._max_age = max_age
        self._monotonic = monotonic

    async def read(self, chunk: Sequence[Expected]) -> ChunkReading:
        """Describe the groups of a chunk, read their offsets, and decide about each topic."""
        send_by = self._monotonic() + self._max_age
        group_ids = list(dict.fromkeys(self._topics[item.group_id].group_id for item in chunk))
        described, offsets = await read_groups(self._admin, group_ids)
        safe: dict[str, GroupOffsets] = {}
        expected, held = list[Expected](), list[GroupOutcome]()
        for item in chunk:
            topic = self._topics[item.group_id]
            reading = Reading(
                listing=self._listings.get(topic.group_id),
                description=described.get(topic.group_id),
                offsets=offsets.get(topic.group_id),
            )
            decision = self._decide(topic, reading, item.needs_backup)
            if decision.action is Action.DELETE:
                safe[topic.name] = offsets_of_topic(offsets[topic.group_id].unwrap(), topic.topic)
                expected.append(item)
            else:
                held.append(of_decision(topic.name, decision))
        return ChunkReading(send_by=send_by, read_at=self._monotonic(), safe=safe, expected=expected, held=held)

    def _decide(self, topic: PlannedTopic, reading: Reading, needs_backup: bool) -> Decision:
        decision = decide_topic(topic, reading, self._entries.get(topic.name), needs_backup=needs_backup)
        if decision.action is Action.GONE or decision.code in PROOF_OF_LIFE:
            return decision
        return self._excluded.get(topic.name, decision)

    def spare(self, reading: ChunkReading) -> tuple[ChunkReading, list[GroupOutcome]]:
        """Return the reading without the topics that were excluded since, and the outcomes of these."""
        return spared(reading, self._excluded)

    async def delete(self, safe: Mapping[str, GroupOffsets], send_within: float) -> GroupResults[None]:
        """Delete the offsets of each topic, with a request for each."""
        send_by, room = clock.now() + send_within, asyncio.Semaphore(_AT_ONCE)

        async def delete(name: str, offsets: GroupOffsets) -> GroupResult[None]:
            async with room:
                try:
                    await self._admin.delete_consumer_group_offsets(
                        self._topics[name].group_id, list(offsets), send_within=max(send_by - clock.now(), 0.0)
                    )
                except KafkaGroupsError as error:
                    return GroupResult(name, None, error)
            return GroupResult(name)

        return GroupResults(await asyncio.gather(*(delete(name, offsets) for name, offsets in safe.items())))

    def outcome(self, name: str, error: KafkaGroupsError | None) -> GroupOutcome:
        """Return what an answer to OffsetDelete means."""
        if not isinstance(error, PartitionsFailedError):
            return of_deletion(name, error)
        errors = error.partition_errors
        codes = {each.name if isinstance(each, BrokerError) else "" for each in errors.values()}
        if len(errors) == len(self._topics[name].partitions):
            if codes == {"GROUP_SUBSCRIBED_TO_TOPIC"}:
                return kept(name, Reason.CAME_BACK, "the broker says that a member subscribes to it")
            if codes == {"UNKNOWN_TOPIC_OR_PARTITION"}:
                why = "the topic does not exist any more: brokers delete its offsets"
                return GroupOutcome(group_id=name, outcome=Outcome.GONE, code=Reason.GONE.value, reason=why)
            if len(codes) == 1 and codes != {""}:
                return of_deletion(name, next(iter(errors.values())))
        reason = f"some of its offsets may be deleted: {error}"
        return GroupOutcome(group_id=name, outcome=Outcome.UNKNOWN, code=PARTLY_DELETED, reason=reason)

    def would_delete(self, name: str) -> GroupOutcome:
        """Return the outcome of a topic that only the dry run kept."""
        return GroupOutcome(group_id=name, outcome=Outcome.WOULD_DELETE, code=SAFE.code.value, reason=SAFE.reason)


async def verify_pruned(admin: GroupAdmin, topics: Mapping[str, PlannedTopic], names: Iterable[str]) -> Verification:
    """Look whether groups have offsets of topics that should be pruned, or read them again.

    :param admin: the client.
    :param topics: the planned topics, by name.
    :param names: those that should be gone.

    Raises only if the cluster cannot be reached at all.
    """
    wanted = [topics[name] for name in names]
    group_ids = list(dict.fromkeys(topic.group_id for topic in wanted))
    described, read = await read_groups(admin, group_ids)
    gone, present, unclear = list[str](), dict[str, str](), dict[str, str]()
    for topic in wanted:
        result = read[topic.group_id]
        if result.value is None:
            unclear[topic.name] = str(result.error)
        elif left := committed_partitions(offsets_of_topic(result.value, topic.topic)):
            present[topic.name] = f"{left} partition(s) have a committed offset"
        elif topic.topic in _topics_read(described.get(topic.group_id)):
            unclear[topic.name] = (
                "its offsets are gone, and a member subscribes to it by now, which may have started at another place"
            )
        else:
            gone.append(topic.name)
    return Verification(gone=tuple(gone), present=present, unclear=unclear)


def _topics_read(described: GroupResult[GroupDescription] | None) -> frozenset[str]:
    group = None if described is None else described.value
    topics = "" if group is None else topics_read(group)
    return frozenset() if isinstance(topics, str) else topics
