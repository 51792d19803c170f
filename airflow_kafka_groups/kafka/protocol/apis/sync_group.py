"""SyncGroup: the leader sends the assignments of all members, and each member gets its own.

v0 assignments · v1 throttle time · v3 group.instance.id (KIP-345) · v4 flexible · v5 protocol type and name (KIP-559)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_kafka_groups.kafka.protocol.answers import NO_THROTTLE, SyncAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import SYNC_GROUP
from airflow_kafka_groups.kafka.protocol.codec import Message, fitting, request_schema
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """The content of a request; ``assignments`` are empty unless the member leads."""

    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocol: str
    assignments: Mapping[str, bytes]


def build(sync: SyncRequest, version: int) -> Message:
    """Build a request."""
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


def from_kio(response: Message) -> SyncAnswer:
    """Convert a response that kio has read."""
    return SyncAnswer(
        ErrorCode(response.error_code), response.assignment, getattr(response, "throttle_time", NO_THROTTLE)
    )
