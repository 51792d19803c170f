"""Groups, as listed and described by brokers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from airflow_kafka_groups.kafka.models.cluster import BrokerId, TopicPartition
from airflow_kafka_groups.kafka.models.group_states import GroupState
from airflow_kafka_groups.kafka.models.group_types import GroupType

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
