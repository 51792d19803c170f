"""The recheck: the last decision before a group or a topic of one is deleted. Pure; every doubt keeps.

Kafka refuses only to delete a group *with members*, and offsets of a topic that a member is known to subscribe to. A
consumer that assigns its own partitions (Flink, Spark, ``assign()``) is no member: everything else is seen here.
"""

from __future__ import annotations

from airflow_kafka_groups.kafka.admin.results import is_not_found
from airflow_kafka_groups.kafka.models import (
    ELIGIBLE_TYPES,
    NAMED_TYPES,
    GroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    ShareGroupOffsets,
    has_judged_kind,
)
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Outcome, Reason, kept
from airflow_kafka_groups.ledger.plan_rows import Target
from airflow_kafka_groups.observe.fingerprint import committed_partitions, fingerprint
from airflow_kafka_groups.observe.readings import GroupReading
from airflow_kafka_groups.observe.snapshot.subscriptions import CONSUMER_PROTOCOL, topics_read, topics_seen

_EMPTY, _DEAD, _UNKNOWN = GroupState.EMPTY, GroupState.DEAD, GroupType.UNKNOWN  # looking up a member takes a while


_Why = tuple[Reason, str]
"""Why something is not deleted, for counting and for people."""


def decide(target: Target, reading: GroupReading, backup: Target | None, *, needs_backup: bool = True) -> GroupOutcome:
    """Decide about one target; the order is that in which a person would want to hear the reasons.

    :param target: what it has to look like still.
    :param backup: what is backed up of it.

    Only ``WOULD_DELETE`` lets it be deleted.
    """
    its, is_topic = ("its group", True) if target.topic is not None else ("it", False)
    group = _described(target.group_id, reading, its)
    if not isinstance(group, GroupDescription):
        return kept(target.name, *group)
    if reading.listing is None:
        return kept(target.name, Reason.NOT_LISTED, f"no broker lists {its}, and its coordinator knows it")
    why = (
        (_by_kind_of_group(reading.listing, group) if is_topic else _by_kind(target, reading.listing, group))
        or (_by_subscription(target, group) if is_topic else _by_life(target, group))
        or _by_offsets(target, reading)
        or (_by_backup(target, backup) if needs_backup or backup is not None else None)
    )
    return safe(target) if why is None else kept(target.name, *why)


def safe(target: Target, *, backed_up: bool = True) -> GroupOutcome:
    """Return the only outcome of the recheck by which it is deleted.

    :param backed_up: whether it is backed up, which a dry run does not need. Default true.
    """
    reason = "empty, without members, unmoved" if target.topic is None else "nobody subscribes to it, unmoved"
    reason += ", backed up" if backed_up else ", not backed up yet"
    code = Reason.SAFE.value
    return GroupOutcome(group_id=target.name, outcome=Outcome.WOULD_DELETE, code=code, reason=reason)


def _described(group_id: str, reading: GroupReading, subject: str) -> GroupDescription | _Why:
    """Return what a group's coordinator says of it, or what follows from its silence.

    :param subject: the group in the reasons: ``it``, or what it is to the subject of the decision.
    """
    described = reading.description
    if described is None or (described.error is None and described.value is None):
        return Reason.NOT_DESCRIBED, f"the coordinator said nothing about {subject}"
    if described.error is not None:
        if reading.listing is None and is_not_found(described.error):
            return _gone(subject)
        return Reason.NOT_DESCRIBED, f"the state of {subject} could not be read: {described.error}"
    group = described.unwrap()
    if group.group_id != group_id or described.group_id != group_id:
        return Reason.NOT_DESCRIBED, f"the answer is about another group ({group.group_id!r})"
    if group.state is not _DEAD:
        return group
    if reading.listing is not None and reading.listing.type in NAMED_TYPES:  # not every broker describes these
        return Reason.NOT_DESCRIBED, f"its coordinator does not know {subject}, which a broker lists"
    return _gone(subject)


def _by_backup(target: Target, backup: Target | None) -> _Why | None:
    if backup is None or backup.name != target.name:
        return Reason.NOT_IN_BACKUP, "it is not in the backup"
    if backup.fingerprint != target.fingerprint:
        return Reason.BACKUP_DIFFERS, "the backup holds other offsets than it has"
    return None


def _by_kind_of_group(listing: GroupListing, group: GroupDescription) -> _Why | None:
    """Keep topics of groups whose members' subscriptions brokers do not know."""
    if group.type not in ELIGIBLE_TYPES:
        return Reason.WRONG_TYPE, f"the type of its group is {group.type.value}"
    for protocol in (listing.protocol_type, group.protocol_type):
        if protocol != CONSUMER_PROTOCOL:
            return Reason.WRONG_PROTOCOL, f"the protocol type of its group is {protocol!r}"
    return None


def _by_subscription(target: Target, group: GroupDescription) -> _Why | None:
    if target.topic in topics_seen(group):  # whatever else is not known
        return Reason.SUBSCRIBED, "a member of its group subscribes to it, or was assigned a partition of it"
    topics = topics_read(group)
    if isinstance(topics, str):
        code = Reason.NOT_DESCRIBED if group.state is GroupState.STABLE else Reason.NOT_STABLE
        return code, f"what its group reads is not known: {topics}"
    return None


def _by_kind(expected: Target, listing: GroupListing, group: GroupDescription) -> _Why | None:
    """Keep what is not ours to delete, or is no longer the kind of group that was judged."""
    if group.type not in ELIGIBLE_TYPES and not (group.type in NAMED_TYPES and group.type == expected.group_type):
        why = f"its type is {group.type.value}: other groups than classic and consumer ones are deleted by name only"
        return Reason.WRONG_TYPE, why
    if group.type in NAMED_TYPES and not group.restorable:
        return Reason.WRONG_TYPE, f"its brokers cannot restore a {group.type.value} group: that takes Kafka 4.2"
    for protocol in (listing.protocol_type, group.protocol_type, expected.protocol_type):
        if not has_judged_kind(group.type, protocol):
            return Reason.WRONG_PROTOCOL, f"its protocol type is {protocol!r}: another program keeps state there"
    for kind in (listing.type, expected.group_type):
        if kind not in (group.type, _UNKNOWN):
            return Reason.CHANGED_KIND, f"it was a {kind} group and is a {group.type.value} group now"
    # The listing is from the beginning of the run, which may be hours ago; the description is not.
    for now in (listing.protocol_type, group.protocol_type):
        if now != (then := expected.protocol_type):
            return Reason.CHANGED_KIND, f"its protocol type is {now!r} and was {then!r}: somebody used it"
    return None


def _by_life(expected: Target, group: GroupDescription) -> _Why | None:
    if group.members:
        return Reason.HAS_MEMBERS, f"it has {len(group.members)} member(s), state {group.state.value}"
    if group.state is not _EMPTY:
        return Reason.NOT_EMPTY, f"its state is {group.state.value}"
    if expected.has_moved_on(group.group_epoch):
        return Reason.CAME_BACK, "its group epoch moved since it was judged: a member joined or left"
    if group.type in NAMED_TYPES and None in (group.group_epoch, expected.group_epoch):  # their offsets show less
        return Reason.NOT_DESCRIBED, "its group epoch is not known: a member may have joined since it was judged"
    return None


def _by_offsets(target: Target, reading: GroupReading) -> _Why | None:
    read, group_id = reading.offsets, target.group_id
    if read is None or (read.error is None and read.value is None):
        return Reason.UNREADABLE, "the committed offsets did not come"
    if read.error is not None:
        return Reason.UNREADABLE, f"the committed offsets could not be read: {read.error}"
    value = read.unwrap()
    if value.group_id != group_id or read.group_id != group_id:
        return Reason.UNREADABLE, f"the offsets that came are of another group ({value.group_id!r})"
    if isinstance(value, ShareGroupOffsets) is not (target.group_type == GroupType.SHARE):
        return Reason.UNREADABLE, "the offsets that came are of another type of group"
    part = target.part_of(value)
    if target.topic is not None and not committed_partitions(part):
        return Reason.GONE, "its group has no offsets of it any more"
    if fingerprint(part) != target.fingerprint:
        return Reason.MOVED, "its committed offsets changed since it was judged: somebody uses it"
    if not committed_partitions(part):
        return Reason.NO_OFFSETS, "no committed offset is visible; some may be hidden from this user"
    return None


def _gone(subject: str) -> _Why:
    return Reason.GONE, f"{subject} does not exist any more"
