"""LeaveGroup: removes a member, so that the others need not wait for its session to time out.

v0 one member · v1 throttle time · v3 many members, by instance id too (KIP-345) · v4 flexible · v5 reason (KIP-800)
"""

from __future__ import annotations

from airflow_kafka_groups.kafka.protocol.answers import NO_THROTTLE, ErrorAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import LEAVE_GROUP
from airflow_kafka_groups.kafka.protocol.codec import Message, fitting, request_schema
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode

FIRST_BATCHED_VERSION = 3
_MAX_REASON = 255


def build(group_id: str, member_id: str, group_instance_id: str | None, version: int, reason: str = "") -> Message:
    """Build a request for one member."""
    schema = request_schema(LEAVE_GROUP, version)
    if version < FIRST_BATCHED_VERSION:
        return schema.LeaveGroupRequest(group_id=group_id, member_id=member_id)
    member = fitting(
        schema.MemberIdentity,
        member_id=member_id,
        group_instance_id=group_instance_id,
        reason=reason[:_MAX_REASON] or None,
    )
    return schema.LeaveGroupRequest(group_id=group_id, members=(member,))


def from_kio(response: Message) -> ErrorAnswer:
    """Convert a response that kio has read: the error of the request, or else the member's own (v3+)."""
    codes = (response.error_code, *(member.error_code for member in getattr(response, "members", ())))
    error = next(filter(None, codes), ErrorCode.none)
    return ErrorAnswer(ErrorCode(error), getattr(response, "throttle_time", NO_THROTTLE))
