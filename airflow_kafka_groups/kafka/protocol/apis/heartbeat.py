"""Heartbeat: keeps a member alive, and reports whether its generation is current.

v0 group, generation, member · v1 throttle time · v3 group.instance.id (KIP-345) · v4 flexible
"""

from __future__ import annotations

from airflow_kafka_groups.kafka.protocol.answers import NO_THROTTLE, ErrorAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import HEARTBEAT
from airflow_kafka_groups.kafka.protocol.codec import Message, fitting, request_schema
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode


def build(group_id: str, generation: int, member_id: str, group_instance_id: str | None, version: int) -> Message:
    """Build a request."""
    return fitting(
        request_schema(HEARTBEAT, version).HeartbeatRequest,
        group_id=group_id,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=group_instance_id,
    )


def from_kio(response: Message) -> ErrorAnswer:
    """Convert a response that kio has read."""
    return ErrorAnswer(ErrorCode(response.error_code), getattr(response, "throttle_time", NO_THROTTLE))
