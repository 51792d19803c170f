"""JoinGroup: become a member of a group, or say again that one is (KIP-62, KIP-345, KIP-394).

v0 session timeout · v1 rebalance timeout · v2 throttle time · v4 MEMBER_ID_REQUIRED (KIP-394) · v5 group.instance.id
(KIP-345) · v6 flexible · v7 protocol type in the answer · v8 reason (KIP-800) · v9 skip_assignment (KIP-814)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from airflow_kafka_groups.exceptions import UnsupportedVersionError
from airflow_kafka_groups.protocol.apis import JOIN_GROUP
from airflow_kafka_groups.protocol.codec import Message, request_schema
from airflow_kafka_groups.protocol.error_codes import ErrorCode

FIRST_STATIC_VERSION = 5
_MAX_REASON = 255


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """Be one member as the leader sees it: its id, its instance id, its metadata for the chosen protocol."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAnswer:
    """Be the answer; ``members`` are told to the leader only, ``protocol_type`` from v7 on."""

    error: ErrorCode
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    member_id: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """Be what a member says of itself; ``protocols`` in the order of preference, timeouts in seconds."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocols: Sequence[tuple[str, bytes]]
    session_timeout: float
    rebalance_timeout: float
    reason: str | None = None


def build(join: JoinRequest, version: int) -> Message:
    """Make a request.

    Raises ``UnsupportedVersionError`` for an instance id below v5.
    """
    if join.group_instance_id is not None and version < FIRST_STATIC_VERSION:
        raise UnsupportedVersionError(
            f"JoinGroup v{version} knows no group.instance.id; static membership takes v{FIRST_STATIC_VERSION}"
        )
    schema = request_schema(JOIN_GROUP, version)
    fields: dict[str, Any] = {
        "group_id": join.group_id,
        "session_timeout": timedelta(seconds=join.session_timeout),
        "member_id": join.member_id,
        "protocol_type": join.protocol_type,
        "protocols": tuple(schema.JoinGroupRequestProtocol(name=n, metadata=data) for n, data in join.protocols),
    }
    if version >= 1:
        fields["rebalance_timeout"] = timedelta(seconds=join.rebalance_timeout)
    if version >= FIRST_STATIC_VERSION:
        fields["group_instance_id"] = join.group_instance_id
    if version >= 8:
        fields["reason"] = join.reason[:_MAX_REASON] if join.reason else None
    return schema.JoinGroupRequest(**fields)


def parse(response: Message) -> JoinAnswer:
    """Read the answer."""
    return JoinAnswer(
        error=response.error_code,
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
    )
