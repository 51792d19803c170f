"""How the topics of a chunk are read and deleted, what an answer means, and whether their offsets are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from airflow_kafka_groups.change.deletion.chunk_reader import ChunkReading, read_groups
from airflow_kafka_groups.change.deletion.recheck import Decision, Expected, Reading, Reason
from airflow_kafka_groups.change.deletion.verify import Verification
from airflow_kafka_groups.change.deletion.work import ChunkWork
from airflow_kafka_groups.change.prune_topics.recheck import SAFE, decide_topic, offsets_of_topic
from airflow_kafka_groups.exceptions import BrokerError, KafkaGroupsError, PartitionsFailedError
from airflow_kafka_groups.kafka.admin.results import GroupResult, GroupResults
from airflow_kafka_groups.kafka.cluster import clock
from airflow_kafka_groups.kafka.models import GroupDescription, GroupOffsets
from airflow_kafka_groups.ledger.outcomes import PARTLY_DELETED, GroupOutcome, Outcome, kept, of_deletion
from airflow_kafka_groups.ledger.prune_plan import PlannedTopic
from airflow_kafka_groups.observe.fingerprint import committed_partitions, fingerprint
from airflow_kafka_groups.observe.protocols import BackupAdmin, GroupAdmin, OffsetDeletionAdmin
from airflow_kafka_groups.observe.snapshot.subscriptions import topics_seen

_AT_ONCE = 20


class PruneAdmin(BackupAdmin, OffsetDeletionAdmin, Protocol):
    """What a pruning needs."""


class TopicWork(ChunkWork):
    """The deletion of a group's offsets of single topics.

    :param topics: the planned topics, by their names in the journal.
    :param how: the other arguments of ``ChunkReader``.
    """

    safe = SAFE
    _admin: PruneAdmin

    def __init__(self, admin: PruneAdmin, topics: Mapping[str, PlannedTopic], *how: Any) -> None:
        super().__init__(admin, *how)
        self._topics = topics

    def _group_of(self, name: str) -> str:
        return self._topics[name].group_id

    def _part_of(self, name: str, offsets: GroupOffsets) -> GroupOffsets:
        return offsets_of_topic(offsets, self._topics[name].topic)

    def _decide(self, expected: Expected, reading: Reading) -> Decision:
        name = expected.group_id
        return decide_topic(self._topics[name], reading, self._entries.get(name), needs_backup=expected.needs_backup)

    async def delete(self, reading: ChunkReading, send_within: float) -> GroupResults[None]:
        """Delete the offsets of each topic, with a request for each, by the broker that described its group.

        It said who subscribes to what, and may have been replaced since without knowing it, as in ``ChunkWork.delete``.
        """
        send_by, room = clock.now() + send_within, asyncio.Semaphore(_AT_ONCE)

        async def delete(name: str, offsets: GroupOffsets) -> GroupResult[None]:
            group_id = self._topics[name].group_id
            async with room:
                try:
                    await self._admin.delete_consumer_group_offsets(
                        group_id,
                        list(offsets),
                        send_within=max(send_by - clock.now(), 0.0),
                        coordinator=reading.coordinators[group_id],
                    )
                except KafkaGroupsError as error:
                    return GroupResult(name, None, error)
            return GroupResult(name)

        return GroupResults(await asyncio.gather(*(delete(name, offsets) for name, offsets in reading.safe.items())))

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


async def verify_pruned(admin: GroupAdmin, topics: Mapping[str, PlannedTopic], names: Iterable[str]) -> Verification:
    """Look whether groups have offsets of topics that should be pruned, or read them again.

    :param topics: the planned topics, by name.
    :param names: those that should be gone.

    Raises only if the cluster cannot be reached at all.
    """
    wanted = [topics[name] for name in names]
    group_ids = list(dict.fromkeys(topic.group_id for topic in wanted))
    described, read = await read_groups(admin, group_ids)
    gone, present, unclear, changed = list[str](), dict[str, str](), dict[str, str](), set[str]()
    for topic in wanted:
        result = read[topic.group_id]
        if result.value is None:
            unclear[topic.name] = str(result.error)
        elif left := committed_partitions(of_topic := offsets_of_topic(result.value, topic.topic)):
            present[topic.name] = f"{left} partition(s) have a committed offset"
            if fingerprint(of_topic) != topic.fingerprint:
                changed.add(topic.name)
        elif topic.topic in _topics_seen(described.get(topic.group_id)):
            unclear[topic.name] = (
                "its offsets are gone, and a member subscribes to it by now, which may have started at another place"
            )
        else:
            gone.append(topic.name)
    return Verification(gone=tuple(gone), present=present, unclear=unclear, changed=frozenset(changed))


def _topics_seen(described: GroupResult[GroupDescription] | None) -> frozenset[str]:
    group = None if described is None else described.value
    return frozenset() if group is None else topics_seen(group)
