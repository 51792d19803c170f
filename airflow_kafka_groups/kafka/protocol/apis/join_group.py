"""JoinGroup: become a member of a group, or rejoin it (KIP-62, KIP-345, KIP-394).

v0 session timeout · v1 rebalance timeout · v2 throttle time · v4 MEMBER_ID_REQUIRED (KIP-394) · v5 group.instance.id
(KIP-345) · v6 flexible · v7 protocol type in the answer · v8 reason (KIP-800) · v9 skip_assignment (KIP-814)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from airflow_kafka_groups.exceptions import UnsupportedVersionError
from airflow_kafka_groups.kafka.protocol.answers import NO_THROTTLE, JoinAnswer, JoinedMember
from airflow_kafka_groups.kafka.protocol.api_versions import JOIN_GROUP
from airflow_kafka_groups.kafka.protocol.codec import Message, fitting, request_schema
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode

FIRST_STATIC_VERSION = 5
_MAX_REASON = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """The content of a request; ``protocols`` in the order of preference, timeouts in seconds."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocols: Sequence[tuple[str, bytes]]
    session_timeout: float
    rebalance_timeout: float
    reason: str | None = None


def build(join: JoinRequest, version: int) -> Message:
    """Build a request.

    Raises ``UnsupportedVersionError`` for an instance id below v5.
    """
    if join.group_instance_id is not None and version < FIRST_STATIC_VERSION:
        raise UnsupportedVersionError(
            f"JoinGroup v{version} knows no group.instance.id; static membership takes v{FIRST_STATIC_VERSION}"
        )
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


def from_kio(response: Message) -> JoinAnswer:
    """Convert a response that kio has read."""
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
