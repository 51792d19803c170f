"""The recheck of a topic: the last decision before its offsets are deleted, from the latest reading. Pure.

Brokers refuse to delete the offsets of a topic that a member of a *classic* group subscribes to, if they can read its
subscription, and so they do for ``consumer`` groups. All else has to be seen here; every doubt keeps the topic.
"""

from __future__ import annotations

from airflow_kafka_groups.contracts.group_types import ELIGIBLE_TYPES, JUDGED_TYPES
from airflow_kafka_groups.maintenance.backup.groups import BackupEntry
from airflow_kafka_groups.maintenance.deletion.recheck import Action, Decision, Reading, Reason, is_not_found
from airflow_kafka_groups.maintenance.fingerprint import committed_partitions, fingerprint
from airflow_kafka_groups.maintenance.prune_topics.objections import CONSUMER_PROTOCOL
from airflow_kafka_groups.maintenance.prune_topics.prune_plan import PlannedTopic
from airflow_kafka_groups.maintenance.snapshot.subscriptions import topics_read
from airflow_kafka_groups.models import GroupDescription, GroupListing, GroupOffsets, GroupState, GroupType

SAFE = Decision(Action.DELETE, Reason.SAFE, "nobody subscribes to it, unmoved, backed up")
"""The only decision by which the offsets of a topic are deleted."""


def offsets_of_topic(offsets: GroupOffsets, topic: str) -> GroupOffsets:
    """Return a group's committed offsets of one topic.

    :param offsets: all of them.
    :param topic: the topic.
    """
    return GroupOffsets(offsets.group_id, tuple(part for part in offsets.topics if part.topic == topic))


def decide_topic(
    planned: PlannedTopic, reading: Reading, backup: BackupEntry | None, *, needs_backup: bool
) -> Decision:
    """Decide about one topic of a group; the order is that in which a person would want to hear the reasons.

    :param planned: what it has to look like still.
    :param reading: the latest reading of its group.
    :param backup: what is backed up of it.
    :param needs_backup: whether it has to be in a backup.
    """
    listed = GroupType.UNKNOWN if reading.listing is None else reading.listing.type
    if listed not in JUDGED_TYPES:
        return _keep(Reason.WRONG_TYPE, f"its group is a {listed.value} group")
    described = reading.description
    if described is None or (described.error is None and described.value is None):
        return _keep(Reason.NOT_DESCRIBED, "the coordinator said nothing about its group")
    if described.error is not None:
        if reading.listing is None and is_not_found(described.error):
            return Decision(Action.GONE, Reason.GONE, "its group does not exist any more")
        return _keep(Reason.NOT_DESCRIBED, f"the state of its group could not be read: {described.error}")
    group = described.unwrap()
    if group.group_id != planned.group_id or described.group_id != planned.group_id:
        return _keep(Reason.NOT_DESCRIBED, f"the answer is about another group ({group.group_id!r})")
    if group.state is GroupState.DEAD:
        return Decision(Action.GONE, Reason.GONE, "its group does not exist any more")
    return (
        _by_kind(reading.listing, group)
        or _by_subscription(planned, group)
        or _by_offsets(planned, reading)
        or (_by_backup(planned, backup) if needs_backup else None)
        or SAFE
    )


def _by_kind(listing: GroupListing | None, group: GroupDescription) -> Decision | None:
    if listing is None:
        return _keep(Reason.NOT_LISTED, "no broker lists its group, and the coordinator knows it")
    if group.type not in ELIGIBLE_TYPES:
        return _keep(Reason.WRONG_TYPE, f"the type of its group is {group.type.value}")
    for protocol in (listing.protocol_type, group.protocol_type):
        if protocol != CONSUMER_PROTOCOL:
            return _keep(Reason.WRONG_PROTOCOL, f"the protocol type of its group is {protocol!r}")
    return None


def _by_subscription(planned: PlannedTopic, group: GroupDescription) -> Decision | None:
    topics = topics_read(group)
    if isinstance(topics, str):
        code = Reason.NOT_DESCRIBED if group.state is GroupState.STABLE else Reason.NOT_STABLE
        return _keep(code, f"what its group reads is not known: {topics}")
    if planned.topic in topics:
        return _keep(Reason.SUBSCRIBED, "a member of its group subscribes to it, or was assigned a partition of it")
    return None


def _by_offsets(planned: PlannedTopic, reading: Reading) -> Decision | None:
    offsets = reading.offsets
    if offsets is None or (offsets.error is None and offsets.value is None):
        return _keep(Reason.UNREADABLE, "the committed offsets of its group did not come")
    if offsets.error is not None:
        return _keep(Reason.UNREADABLE, f"the committed offsets of its group could not be read: {offsets.error}")
    value = offsets.unwrap()
    if value.group_id != planned.group_id or offsets.group_id != planned.group_id:
        return _keep(Reason.UNREADABLE, f"the offsets that came are of another group ({value.group_id!r})")
    of_topic = offsets_of_topic(value, planned.topic)
    if not committed_partitions(of_topic):
        return Decision(Action.GONE, Reason.GONE, "its group has no offsets of it any more")
    if fingerprint(of_topic) != planned.fingerprint:
        return _keep(Reason.MOVED, "its committed offsets changed since it was judged: somebody uses it")
    return None


def _by_backup(planned: PlannedTopic, backup: BackupEntry | None) -> Decision | None:
    if backup is None or backup.group_id != planned.name:
        return _keep(Reason.NOT_IN_BACKUP, "it is not in the backup")
    if backup.fingerprint != planned.fingerprint:
        return _keep(Reason.BACKUP_DIFFERS, "the backup holds other offsets than it has")
    return None


def _keep(code: Reason, reason: str) -> Decision:
    return Decision(Action.KEEP, code, reason)
