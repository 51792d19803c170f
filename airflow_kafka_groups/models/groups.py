"""Groups, as listed and described by brokers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from airflow_kafka_groups.contracts.group_states import GroupState
from airflow_kafka_groups.contracts.group_types import GroupType
from airflow_kafka_groups.models.cluster import BrokerId, TopicPartition

GroupId: TypeAlias = str

LEASE_GROUP_ID = "airflow-kafka-groups-lease"
"""The group of the maintenance lease, which at most one run holds; a prefix may precede it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
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
    """A member of a group."""

    member_id: str
    client_id: str
    host: str
    group_instance_id: str | None = None
    assignment: tuple[TopicPartition, ...] = ()


class GroupDescription(NamedTuple):
    """A group as described by its coordinator. A group that does not exist has the state ``DEAD``."""

    group_id: GroupId
    state: GroupState
    type: GroupType
    protocol_type: str
    protocol: str
    coordinator: BrokerId
    members: tuple[MemberDescription, ...] = ()
    authorized_operations: frozenset[str] | None = None
