"""Groups, as brokers list and describe them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from airflow_kafka_groups.models.cluster import BrokerId, TopicPartition

GroupId: TypeAlias = str

LEASE_GROUP_ID = "airflow-kafka-groups-lease"
"""The group by which Kafka elects the one run that may delete."""


class GroupState(StrEnum):
    """Be the state of a group, in the broker's own spelling."""

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
        return _STATES.get(text) or _STATES.get((text or "").lower(), cls.UNKNOWN)


_STATES: dict[str | None, GroupState] = {
    spelling: state for state in GroupState for spelling in (state.value, state.value.lower())
}


class GroupType(StrEnum):
    """Be the type of a group, as ListGroups v5 tells it; ``UNKNOWN`` where the broker is too old to say."""

    UNKNOWN = "unknown"
    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"

    @classmethod
    def parse(cls, text: str | None) -> GroupType:
        """Read the broker's spelling; a type this version does not know is ``UNKNOWN``."""
        return _TYPES.get((text or "").lower(), cls.UNKNOWN)


_TYPES = {kind.value.lower(): kind for kind in GroupType}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """Be a group as ListGroups shows it.

    ``state`` needs ListGroups v4 and ``type`` v5; on older brokers they are ``UNKNOWN``.
    """

    group_id: GroupId
    protocol_type: str
    state: GroupState
    type: GroupType
    coordinator: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """Be one member of a group."""

    member_id: str
    client_id: str
    host: str
    group_instance_id: str | None = None
    assignment: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """Be a group as its coordinator describes it. A group that does not exist has the state ``DEAD``."""

    group_id: GroupId
    state: GroupState
    type: GroupType
    protocol_type: str
    protocol: str
    coordinator: BrokerId
    members: tuple[MemberDescription, ...] = ()
    authorized_operations: frozenset[str] | None = None
