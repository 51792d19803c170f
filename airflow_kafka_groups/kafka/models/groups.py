"""Groups as brokers list and describe them: states, types, and which types may be judged, changed and deleted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from airflow_kafka_groups.kafka.models.cluster import BrokerId, TopicPartition


class GroupState(StrEnum):
    """The state of a group, in the broker's own spelling."""

    UNKNOWN = "Unknown"
    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"

    @classmethod
    def parse(cls, text: str | None) -> GroupState:
        """Read the broker's spelling; a state this version does not know is ``UNKNOWN``, never ``EMPTY``."""
        return _STATE_BY_NAME.get(text) or _STATE_BY_NAME.get((text or "").lower(), cls.UNKNOWN)


_STATE_BY_NAME: dict[str | None, GroupState] = {
    spelling: state for state in GroupState for spelling in (state.value, state.value.lower())
}


class GroupType(StrEnum):
    """The type of a group, as ListGroups v5 reports it; ``UNKNOWN`` where the broker is too old to report one."""

    UNKNOWN = "unknown"
    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"

    @classmethod
    def parse(cls, text: str | None) -> GroupType:
        """Read the broker's spelling; a type this version does not know is ``UNKNOWN``."""
        return _TYPE_BY_NAME.get((text or "").lower(), cls.UNKNOWN)


_TYPE_BY_NAME = {kind.value: kind for kind in GroupType}

ELIGIBLE_TYPES = frozenset({GroupType.CLASSIC, GroupType.CONSUMER})
"""Types that may be changed or deleted: their committed offsets are all there is to lose, and a backup holds them.

A broker deletes a share group just as readily, together with progress that no backup has. ``UNKNOWN`` is not among
them: whoever changes a group has described it a moment before, and a description names the type.
"""

JUDGED_TYPES = ELIGIBLE_TYPES | {GroupType.UNKNOWN}
"""Types that may be judged and planned. Brokers below ListGroups v5 report none, and have classic groups only."""

ELIGIBLE_PROTOCOL_TYPES = frozenset({"", "consumer"})
"""Protocol types that may be judged, changed or deleted: consumers, and clients that only commit (no protocol).

Kafka Connect, schema registries and others use the group protocol for state of their own.
"""

_PROGRESS_ELSEWHERE = frozenset({GroupType.SHARE, GroupType.STREAMS})


def has_eligible_kind(group_type: str, protocol_type: str) -> bool:
    """Return whether a group of this described type and protocol type may be changed or deleted."""
    return group_type in ELIGIBLE_TYPES and protocol_type in ELIGIBLE_PROTOCOL_TYPES


def keeps_progress_elsewhere(group_type: str, protocol_type: str = "") -> bool:
    """Return whether committed offsets do not show a group's progress, so that nobody asks for them.

    That of share groups is in a topic of its own, and that of a Streams application includes its state stores. Some
    brokers report the protocol type only. Such groups are listed and counted, never read. This is narrower than "not
    eligible": the offsets of a Connect group, for example, are read and kept in snapshots.
    """
    return group_type in _PROGRESS_ELSEWHERE or protocol_type in _PROGRESS_ELSEWHERE


GroupId: TypeAlias = str

LEASE_GROUP_ID = "airflow-kafka-groups-lease"
"""The group of the maintenance lease, which at most one run holds; a prefix may precede it."""


class GroupListing(NamedTuple):
    """A group as listed by ListGroups.

    ``state`` requires ListGroups v4 and ``type`` v5; on older brokers they are ``UNKNOWN``.
    """

    group_id: GroupId
    protocol_type: str
    state: GroupState
    type: GroupType
    coordinator: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """A member of a group.

    :param group_instance_id: the name of a static member (KIP-345).
    :param subscribed_topics: the topics it names; ``None`` if they are not known: brokers report them only while the
        group is Stable, and those of other programs than consumers cannot be read.
    :param subscribed_pattern: the regular expression that it subscribes with, which brokers evaluate (KIP-848).
    :param assignment_known: whether its assignment could be read; it is empty where not. Default true.
    :param assigned_with_user_data: whether its assignment carries data of an assignor in the clients. Default false.
    :param uses_classic_protocol: whether it speaks JoinGroup and SyncGroup; ``None`` where brokers do not report it.
    """

    member_id: str
    client_id: str
    host: str
    group_instance_id: str | None = None
    assignment: tuple[TopicPartition, ...] = ()
    assignment_known: bool = True
    assigned_with_user_data: bool = False
    subscribed_topics: tuple[str, ...] | None = None
    subscribed_pattern: str | None = None
    uses_classic_protocol: bool | None = None


class GroupDescription(NamedTuple):
    """A group as described by its coordinator. One that does not exist has the state ``DEAD``, and no type."""

    group_id: GroupId
    state: GroupState
    type: GroupType
    protocol_type: str
    protocol: str
    coordinator: BrokerId
    members: tuple[MemberDescription, ...] = ()
    authorized_operations: frozenset[str] | None = None
