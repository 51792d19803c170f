"""The reading, recheck and deletion of the topics of a chunk: every doubt keeps the topic.

Brokers refuse to delete the offsets of a topic that a member of a *classic* group subscribes to, if they can read its
subscription, and so they do for ``consumer`` groups. Everything else has to be seen here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from airflow_kafka_groups.change.deletion.chunk_loop import ChunkWork, Ready
from airflow_kafka_groups.change.deletion.chunk_reader import ChunkReading, read_groups
from airflow_kafka_groups.change.deletion.recheck import (
    GroupReading,
    by_backup,
    committed_offsets,
    described_group,
    keep,
)
from airflow_kafka_groups.change.deletion.verify import Verification
from airflow_kafka_groups.change.prune_topics.abandoned_topics import CONSUMER_PROTOCOL
from airflow_kafka_groups.exceptions import (
    BrokerError,
    KafkaGroupsError,
    LeaseLostError,
    NotSentError,
    PartitionsFailedError,
)
from airflow_kafka_groups.kafka.admin.results import GroupResult, GroupResults
from airflow_kafka_groups.kafka.cluster import clock
from airflow_kafka_groups.kafka.models import ELIGIBLE_TYPES, GroupDescription, GroupListing, GroupOffsets, GroupState
from airflow_kafka_groups.ledger.outcomes import (
    PARTLY_DELETED,
    Action,
    Decision,
    GroupOutcome,
    Outcome,
    Reason,
    kept,
    of_deletion,
)
from airflow_kafka_groups.ledger.plan_rows import CommittedGroup
from airflow_kafka_groups.ledger.prune_plan import PlannedTopic
from airflow_kafka_groups.observe.fingerprint import committed_partitions, fingerprint
from airflow_kafka_groups.observe.protocols import BackupAdmin, GroupAdmin, OffsetDeletionAdmin
from airflow_kafka_groups.observe.snapshot.subscriptions import topics_read, topics_seen

SAFE = Decision(Action.DELETE, Reason.SAFE, "nobody subscribes to it, unmoved, backed up")
"""The only decision by which the offsets of a topic are deleted."""


def offsets_of_topic(offsets: GroupOffsets, topic: str) -> GroupOffsets:
    """Return a group's committed offsets of one topic."""
    return GroupOffsets(offsets.group_id, tuple(part for part in offsets.topics if part.topic == topic))


def decide_topic(
    planned: PlannedTopic, reading: GroupReading, backup: CommittedGroup | None, *, needs_backup: bool
) -> Decision:
    """Decide about one topic of a group; the order is that in which a person would want to hear the reasons.

    :param planned: what it has to look like still.
    :param backup: what is backed up of it.
    :param needs_backup: whether it has to be in a backup.
    """
    group = described_group(planned.group_id, reading, "its group")
    if isinstance(group, Decision):
        return group
    return (
        _by_kind(reading.listing, group)
        or _by_subscription(planned, group)
        or _by_offsets(planned, reading)
        or (by_backup(planned.name, planned.fingerprint, backup) if needs_backup else None)
        or SAFE
    )


def _by_kind(listing: GroupListing | None, group: GroupDescription) -> Decision | None:
    if listing is None:
        return keep(Reason.NOT_LISTED, "no broker lists its group, and the coordinator knows it")
    if group.type not in ELIGIBLE_TYPES:
        return keep(Reason.WRONG_TYPE, f"the type of its group is {group.type.value}")
    for protocol in (listing.protocol_type, group.protocol_type):
        if protocol != CONSUMER_PROTOCOL:
            return keep(Reason.WRONG_PROTOCOL, f"the protocol type of its group is {protocol!r}")
    return None


def _by_subscription(planned: PlannedTopic, group: GroupDescription) -> Decision | None:
    if planned.topic in topics_seen(group):  # whatever else is not known
        return keep(Reason.SUBSCRIBED, "a member of its group subscribes to it, or was assigned a partition of it")
    topics = topics_read(group)
    if isinstance(topics, str):
        code = Reason.NOT_DESCRIBED if group.state is GroupState.STABLE else Reason.NOT_STABLE
        return keep(code, f"what its group reads is not known: {topics}")
    return None


def _by_offsets(planned: PlannedTopic, reading: GroupReading) -> Decision | None:
    value = committed_offsets(planned.group_id, reading)
    if isinstance(value, Decision):
        return value
    of_topic = offsets_of_topic(value, planned.topic)
    if not committed_partitions(of_topic):
        return Decision(Action.GONE, Reason.GONE, "its group has no offsets of it any more")
    if fingerprint(of_topic) != planned.fingerprint:
        return keep(Reason.MOVED, "its committed offsets changed since it was judged: somebody uses it")
    return None


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

    def _decide(self, expected: CommittedGroup, reading: GroupReading) -> Decision:
        name = expected.group_id
        return decide_topic(self._topics[name], reading, self._backup(name), needs_backup=self._entries is not None)

    async def delete(self, reading: ChunkReading, send_within: float, ready: Ready) -> GroupResults[None]:
        """Delete the offsets of each topic, with a request for each, by the broker that described its group.

        It said who subscribes to what, and may have been replaced since without knowing it, as in ``ChunkWork.delete``.
        ``ready`` is asked before each request: the worker may be paused between two of them.
        """
        send_by, room = clock.now() + send_within, asyncio.Semaphore(_AT_ONCE)

        async def delete(name: str, offsets: GroupOffsets) -> GroupResult[None]:
            group_id = self._topics[name].group_id
            async with room:
                try:
                    await _require(ready)
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


async def _require(ready: Ready) -> None:
    try:
        await ready()
    except LeaseLostError as error:  # of this topic, nothing was sent
        raise NotSentError(str(error)) from None


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
