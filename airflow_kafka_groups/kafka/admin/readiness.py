"""Whether groups can move to the rebalance protocol ``consumer`` (KIP-848), and what blocks them.

Judged by what brokers report of a group, as a broker does when the first consumer with the new protocol joins: it takes
over the subscriptions and assignments of the members, and refuses those that it cannot read, and assignments with user
data. The assignor's name does not matter. Brokers report neither a client's library nor its version, so whether the
clients are new enough is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from airflow_kafka_groups.kafka.models import JUDGED_TYPES, GroupDescription, GroupId, GroupState, GroupType

Release = tuple[int, int]

FIRST_RELEASE: Release = (4, 0)
"""The first Kafka release that has the protocol switched on."""

SERVER_ASSIGNORS: Mapping[str, str] = {
    "range": "range",
    "roundrobin": "uniform",
    "sticky": "uniform",
    "cooperative-sticky": "uniform",
}
"""The assignor of brokers that does the same as one of clients. Brokers take over groups of other assignors too."""

_CONSUMER = "consumer"
_STREAMS_ASSIGNOR = "stream"


class MoveStatus(StrEnum):
    """Whether a group can move.

    ``MOVED``: all its members use the protocol. ``MOVING``: some of them do. ``READY``: nothing that brokers report
    blocks it. ``NO_MEMBERS``: its next consumer decides. ``BLOCKED``: see ``GroupReadiness.blockers``. ``OTHER``: not a
    group of consumers. ``UNKNOWN``: look again.
    """

    MOVED = "moved"
    MOVING = "moving"
    READY = "ready"
    NO_MEMBERS = "no_members"
    BLOCKED = "blocked"
    OTHER = "other"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReadiness:
    """What is known of a group's move.

    :param assignor: the assignor in use; of clients, or of brokers for a group that has moved. Empty without members.
    :param moves_to: the assignor of brokers that replaces it; ``None`` if there is none, or it is not known.
    :param static_members: members with an instance id, which they keep.
    :param classic_members: members that use the classic protocol; ``None`` if a broker does not report it.
    :param blockers: what has to change first, one sentence each.
    """

    group_id: GroupId
    status: MoveStatus
    group_type: str
    protocol_type: str
    assignor: str
    moves_to: str | None
    members: int
    static_members: int
    classic_members: int | None
    blockers: tuple[str, ...] = ()


def judge_readiness(group: GroupDescription, oldest_broker: Release | None) -> GroupReadiness:
    """Return whether a group can move, and what blocks it.

    :param oldest_broker: the release of the cluster's oldest broker; ``None`` if it is not known.
    """
    status, blockers = _judge(group, oldest_broker)
    classic = [member.uses_classic_protocol for member in group.members]
    has_moved = group.type is GroupType.CONSUMER
    return GroupReadiness(
        group_id=group.group_id,
        status=status,
        group_type=group.type.value,
        protocol_type=group.protocol_type,
        assignor=group.protocol,
        moves_to=group.protocol or None if has_moved else SERVER_ASSIGNORS.get(group.protocol),
        members=len(group.members),
        static_members=sum(member.group_instance_id is not None for member in group.members),
        classic_members=None if None in classic else sum(map(bool, classic)),
        blockers=blockers,
    )


def _judge(group: GroupDescription, oldest_broker: Release | None) -> tuple[MoveStatus, tuple[str, ...]]:
    if group.state is GroupState.DEAD:
        return MoveStatus.UNKNOWN, ("the group does not exist",)
    if group.type is GroupType.CONSUMER:
        classic = sum(bool(member.uses_classic_protocol) for member in group.members)
        return (MoveStatus.MOVING if classic else MoveStatus.MOVED), ()
    if (other := _why_other(group)) is not None:
        return MoveStatus.OTHER, (other,)
    blockers = [*_brokers(oldest_broker), *_members(group)]
    if blockers:
        return MoveStatus.BLOCKED, tuple(blockers)
    if not group.members:
        return MoveStatus.NO_MEMBERS, ()
    if group.state is not GroupState.STABLE:
        return MoveStatus.UNKNOWN, (f"its state is {group.state.value}: assignor and subscriptions are not known",)
    return MoveStatus.READY, ()


def _why_other(group: GroupDescription) -> str | None:
    if group.type not in JUDGED_TYPES:
        return f"a {group.type.value} group has a protocol of its own"
    if group.protocol == _STREAMS_ASSIGNOR:
        return "a Kafka Streams application moves to the streams protocol (KIP-1071)"
    if group.protocol_type not in ("", _CONSUMER):
        return f"its protocol type is {group.protocol_type!r}: its members are not consumers, and keep the protocol"
    if not group.protocol_type and not group.members:
        return "its clients only commit offsets and use no rebalance protocol"
    return None


def _brokers(oldest: Release | None) -> list[str]:
    needed = ".".join(map(str, FIRST_RELEASE))
    if oldest is None:
        return [f"the release of some broker is not known; the protocol needs Kafka {needed}"]
    if oldest < FIRST_RELEASE:
        return [f"the oldest broker has the APIs of Kafka {'.'.join(map(str, oldest))}; the protocol needs {needed}"]
    return []


def _members(group: GroupDescription) -> list[str]:
    if not group.members or group.state is not GroupState.STABLE:
        return []
    subscriptions = sum(member.subscribed_topics is None for member in group.members)
    assignments = sum(not member.assignment_known for member in group.members)
    with_data = sum(member.assigned_with_user_data for member in group.members)
    blockers = [
        f"the {what} of {count} member(s) cannot be read, so brokers cannot take it over"
        for what, count in (("subscription", subscriptions), ("assignment", assignments))
        if count
    ]
    if with_data:
        blockers.append(
            f"its assignor {group.protocol!r} adds user data to the assignment of {with_data} member(s), which brokers "
            "refuse: change the assignor of all members first, or stop them"
        )
    return blockers
