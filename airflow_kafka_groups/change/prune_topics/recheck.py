"""The recheck of a topic: the last decision before its offsets are deleted, from the latest reading. Pure.

Brokers refuse to delete the offsets of a topic that a member of a *classic* group subscribes to, if they can read its
subscription, and so they do for ``consumer`` groups. All else has to be seen here; every doubt keeps the topic.
"""

from __future__ import annotations

from airflow_kafka_groups.change.backup.groups import BackupEntry
from airflow_kafka_groups.change.deletion.recheck import (
    Action,
    Decision,
    Reading,
    Reason,
    by_backup,
    committed_offsets,
    described_group,
    keep,
)
from airflow_kafka_groups.change.prune_topics.objections import CONSUMER_PROTOCOL
from airflow_kafka_groups.kafka.models import GroupDescription, GroupListing, GroupOffsets, GroupState
from airflow_kafka_groups.kafka.models.group_types import ELIGIBLE_TYPES
from airflow_kafka_groups.ledger.prune_plan import PlannedTopic
from airflow_kafka_groups.observe.fingerprint import committed_partitions, fingerprint
from airflow_kafka_groups.observe.snapshot.subscriptions import topics_read, topics_seen

SAFE = Decision(Action.DELETE, Reason.SAFE, "nobody subscribes to it, unmoved, backed up")
"""The only decision by which the offsets of a topic are deleted."""


def offsets_of_topic(offsets: GroupOffsets, topic: str) -> GroupOffsets:
    """Return a group's committed offsets of one topic."""
    return GroupOffsets(offsets.group_id, tuple(part for part in offsets.topics if part.topic == topic))


def decide_topic(
    planned: PlannedTopic, reading: Reading, backup: BackupEntry | None, *, needs_backup: bool
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


def _by_offsets(planned: PlannedTopic, reading: Reading) -> Decision | None:
    value = committed_offsets(planned.group_id, reading)
    if isinstance(value, Decision):
        return value
    of_topic = offsets_of_topic(value, planned.topic)
    if not committed_partitions(of_topic):
        return Decision(Action.GONE, Reason.GONE, "its group has no offsets of it any more")
    if fingerprint(of_topic) != planned.fingerprint:
        return keep(Reason.MOVED, "its committed offsets changed since it was judged: somebody uses it")
    return None
