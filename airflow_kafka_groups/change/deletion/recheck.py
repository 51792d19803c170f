"""The recheck: the last decision before a group is deleted, from the latest reading. Pure; every doubt keeps.

Kafka itself refuses only to delete a group *with members* (NON_EMPTY_GROUP). A consumer that assigns its own partitions
(Flink, Spark, ``assign()``) has none, and a share group can be deleted together with its progress: the broker will not
stop us there, so this has to.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_kafka_groups.kafka.admin.results import GroupResult, is_not_found
from airflow_kafka_groups.kafka.models import (
    ELIGIBLE_PROTOCOL_TYPES,
    ELIGIBLE_TYPES,
    JUDGED_TYPES,
    GroupDescription,
    GroupListing,
    GroupOffsets,
    GroupState,
    GroupType,
)
from airflow_kafka_groups.ledger.outcomes import SAFE, Action, Decision, Reason
from airflow_kafka_groups.ledger.plan_rows import CommittedGroup
from airflow_kafka_groups.observe.fingerprint import committed_partitions, fingerprint

_EMPTY, _DEAD, _UNKNOWN = GroupState.EMPTY, GroupState.DEAD, GroupType.UNKNOWN  # looking up a member takes a while


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReading:
    """The latest reading of one group; ``None`` is "no answer", which keeps the group.

    :param listing: the group in a complete listing made at the start of this run.
    """

    listing: GroupListing | None
    description: GroupResult[GroupDescription] | None
    offsets: GroupResult[GroupOffsets] | None


def decide(
    expected: CommittedGroup, reading: GroupReading, backup: CommittedGroup | None, *, needs_backup: bool = True
) -> Decision:
    """Decide about one group; the order is that in which a person would want to hear the reasons.

    :param expected: what it has to look like still.
    :param backup: what is backed up of it.
    :param needs_backup: whether it has to be in a backup. Default true.
    """
    group = described_group(expected.group_id, reading, "it")
    if isinstance(group, Decision):
        return group
    if reading.listing is None:
        return keep(Reason.NOT_LISTED, "no broker lists it, and its coordinator knows it")
    return (
        _by_kind(expected, reading.listing, group)
        or _by_life(expected, group)
        or _by_offsets(expected, reading)
        or (by_backup(expected.group_id, expected.fingerprint, backup) if needs_backup or backup is not None else None)
        or SAFE
    )


def described_group(group_id: str, reading: GroupReading, subject: str) -> GroupDescription | Decision:
    """Return what a group's coordinator says of it, or the decision that follows from its silence.

    :param subject: the group in the reasons: ``it``, or what it is to the subject of the decision.
    """
    listed_type = _UNKNOWN if reading.listing is None else reading.listing.type
    if listed_type not in JUDGED_TYPES:
        return keep(Reason.WRONG_TYPE, f"{subject} is a {listed_type.value} group, which keeps its progress elsewhere")
    described = reading.description
    if described is None or (described.error is None and described.value is None):
        return keep(Reason.NOT_DESCRIBED, f"the coordinator said nothing about {subject}")
    if described.error is not None:
        if reading.listing is None and is_not_found(described.error):
            return _gone(subject)
        return keep(Reason.NOT_DESCRIBED, f"the state of {subject} could not be read: {described.error}")
    group = described.unwrap()
    if group.group_id != group_id or described.group_id != group_id:
        return keep(Reason.NOT_DESCRIBED, f"the answer is about another group ({group.group_id!r})")
    return _gone(subject) if group.state is _DEAD else group


def committed_offsets(group_id: str, reading: GroupReading) -> GroupOffsets | Decision:
    """Return a group's committed offsets, or the decision where they cannot be read."""
    offsets = reading.offsets
    if offsets is None or (offsets.error is None and offsets.value is None):
        return keep(Reason.UNREADABLE, "the committed offsets did not come")
    if offsets.error is not None:
        return keep(Reason.UNREADABLE, f"the committed offsets could not be read: {offsets.error}")
    value = offsets.unwrap()
    if value.group_id != group_id or offsets.group_id != group_id:
        return keep(Reason.UNREADABLE, f"the offsets that came are of another group ({value.group_id!r})")
    return value


def by_backup(name: str, expected: str, backup: CommittedGroup | None) -> Decision | None:
    """Keep what is not backed up as it is.

    :param name: its name in the backup.
    :param expected: the fingerprint that it must have there.
    :param backup: what is backed up under this name.
    """
    if backup is None or backup.group_id != name:
        return keep(Reason.NOT_IN_BACKUP, "it is not in the backup")
    if backup.fingerprint != expected:
        return keep(Reason.BACKUP_DIFFERS, "the backup holds other offsets than it has")
    return None


def _by_kind(expected: CommittedGroup, listing: GroupListing, group: GroupDescription) -> Decision | None:
    """Keep what is not ours to delete, or is no longer the kind of group that was judged."""
    if group.type not in ELIGIBLE_TYPES:
        return keep(Reason.WRONG_TYPE, f"its type is {group.type.value}: only classic and consumer groups are deleted")
    if expected.group_type not in JUDGED_TYPES:
        return keep(Reason.WRONG_TYPE, f"it was judged as a {expected.group_type} group")
    for protocol in (listing.protocol_type, group.protocol_type, expected.protocol_type):
        if protocol not in ELIGIBLE_PROTOCOL_TYPES:
            return keep(Reason.WRONG_PROTOCOL, f"its protocol type is {protocol!r}: another program keeps state there")
    for kind in (listing.type, expected.group_type):
        if kind not in (group.type, _UNKNOWN):
            return keep(Reason.CHANGED_KIND, f"it was a {kind} group and is a {group.type.value} group now")
    # The listing is from the beginning of the run, which may be hours ago; the description is not.
    for now in (listing.protocol_type, group.protocol_type):
        if now != (then := expected.protocol_type):
            return keep(Reason.CHANGED_KIND, f"its protocol type is {now!r} and was {then!r}: somebody used it")
    return None


def _by_life(expected: CommittedGroup, group: GroupDescription) -> Decision | None:
    if group.members:
        return keep(Reason.HAS_MEMBERS, f"it has {len(group.members)} member(s), state {group.state.value}")
    if group.state is not _EMPTY:
        return keep(Reason.NOT_EMPTY, f"its state is {group.state.value}")
    if expected.has_moved_on(group.group_epoch):
        return keep(Reason.CAME_BACK, "its group epoch moved since it was judged: a member joined or left")
    return None


def _by_offsets(expected: CommittedGroup, reading: GroupReading) -> Decision | None:
    value = committed_offsets(expected.group_id, reading)
    if isinstance(value, Decision):
        return value
    if fingerprint(value) != expected.fingerprint:
        return keep(Reason.MOVED, "its committed offsets changed since it was judged: somebody uses it")
    if committed_partitions(value) == 0:
        return keep(Reason.NO_OFFSETS, "no committed offset is visible; some may be hidden from this user")
    return None


def _gone(subject: str) -> Decision:
    return Decision(Action.GONE, Reason.GONE, f"{subject} does not exist any more")


def keep(code: Reason, reason: str) -> Decision:
    """Return the decision to keep it."""
    return Decision(Action.KEEP, code, reason)
