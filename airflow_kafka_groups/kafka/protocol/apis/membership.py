"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: what the members of a group ask its coordinator.

JoinGroup: v5 group.instance.id (KIP-345) · v6 flexible · v7 protocol type in the answer · v8 reason (KIP-800) ·
v9 skip_assignment (KIP-814)

SyncGroup: v0 assignments · v1 throttle time · v3 group.instance.id · v4 flexible · v5 protocol type and name (KIP-559)

Heartbeat: v0 group, generation, member · v1 throttle time · v3 group.instance.id · v4 flexible

LeaveGroup: v3 many members, by instance id too · v4 flexible · v5 reason (KIP-800)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from airflow_kafka_groups.kafka.models import MemberToRemove
from airflow_kafka_groups.kafka.protocol.answers import (
    NO_THROTTLE,
    ErrorAnswer,
    JoinAnswer,
    JoinedMember,
    LeaveAnswer,
    SyncAnswer,
)
from airflow_kafka_groups.kafka.protocol.api_versions import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from airflow_kafka_groups.kafka.protocol.codec import Message, fitting, request_schema
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode

_MAX_REASON = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """The content of a JoinGroup request; ``protocols`` in the order of preference, timeouts in seconds."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocols: Sequence[tuple[str, bytes]]
    session_timeout: float
    rebalance_timeout: float
    reason: str | None = None


def build_join(join: JoinRequest, version: int) -> Message:
    schema = request_schema(JOIN_GROUP, version)
    return fitting(
        schema.JoinGroupRequest,
        group_id=join.group_id,
        session_timeout=timedelta(seconds=join.session_timeout),
        rebalance_timeout=timedelta(seconds=join.rebalance_timeout),
        member_id=join.member_id,
        group_instance_id=join.group_instance_id,
        protocol_type=join.protocol_type,
        protocols=tuple(schema.JoinGroupRequestProtocol(name=n, metadata=data) for n, data in join.protocols),
        reason=join.reason[:_MAX_REASON] if join.reason else None,
    )


def join_from_kio(response: Message) -> JoinAnswer:
    return JoinAnswer(
        error=ErrorCode(response.error_code),
        generation=response.generation_id,
        protocol_type=getattr(response, "protocol_type", None),
        protocol=response.protocol_name,
        leader=response.leader,
        member_id=response.member_id,
        skip_assignment=getattr(response, "skip_assignment", False),
        members=tuple(
            JoinedMember(member.member_id, getattr(member, "group_instance_id", None), member.metadata)
            for member in response.members
        ),
        throttle_time=getattr(response, "throttle_time", NO_THROTTLE),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """The content of a SyncGroup request; ``assignments`` are empty unless the member leads."""

    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocol: str
    assignments: Mapping[str, bytes]


def build_sync(sync: SyncRequest, version: int) -> Message:
    schema = request_schema(SYNC_GROUP, version)
    return fitting(
        schema.SyncGroupRequest,
        group_id=sync.group_id,
        generation_id=sync.generation,
        member_id=sync.member_id,
        group_instance_id=sync.group_instance_id,
        protocol_type=sync.protocol_type,
        protocol_name=sync.protocol,
        assignments=tuple(
            schema.SyncGroupRequestAssignment(member_id=member_id, assignment=data)
            for member_id, data in sync.assignments.items()
        ),
    )


def sync_from_kio(response: Message) -> SyncAnswer:
    return SyncAnswer(
        ErrorCode(response.error_code), response.assignment, getattr(response, "throttle_time", NO_THROTTLE)
    )


def build_heartbeat(
    group_id: str, generation: int, member_id: str, group_instance_id: str | None, version: int
) -> Message:
    return fitting(
        request_schema(HEARTBEAT, version).HeartbeatRequest,
        group_id=group_id,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=group_instance_id,
    )


def heartbeat_from_kio(response: Message) -> ErrorAnswer:
    return ErrorAnswer(ErrorCode(response.error_code), getattr(response, "throttle_time", NO_THROTTLE))


def build_leave(group_id: str, members: Sequence[MemberToRemove], version: int, reason: str = "") -> Message:
    schema = request_schema(LEAVE_GROUP, version)
    named = (
        fitting(
            schema.MemberIdentity,
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            reason=reason[:_MAX_REASON] or None,
        )
        for member in members
    )
    return schema.LeaveGroupRequest(group_id=group_id, members=tuple(named))


def leave_from_kio(response: Message) -> LeaveAnswer:
    members = tuple(
        (MemberToRemove(member.member_id, member.group_instance_id), ErrorCode(member.error_code))
        for member in response.members
    )
    return LeaveAnswer(ErrorCode(response.error_code), response.throttle_time, members)
