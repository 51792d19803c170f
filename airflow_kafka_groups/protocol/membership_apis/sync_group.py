"""SyncGroup: the leader hands in everyone's assignment, every member gets its own.

v0 assignments · v1 throttle time · v3 group.instance.id (KIP-345) · v4 flexible · v5 protocol type and name (KIP-559)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_kafka_groups.protocol.apis import SYNC_GROUP
from airflow_kafka_groups.protocol.codec import Message, request_schema
from airflow_kafka_groups.protocol.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class SyncAnswer:
    """Be the answer: what the leader gave this member."""

    error: ErrorCode
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """Be a member's question for its assignment; ``assignments`` are empty unless it leads."""

    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocol: str
    assignments: Mapping[str, bytes]


def build(sync: SyncRequest, version: int) -> Message:
    """Make a request."""
    schema = request_schema(SYNC_GROUP, version)
    fields: dict[str, Any] = {
        "group_id": sync.group_id,
        "generation_id": sync.generation,
        "member_id": sync.member_id,
        "assignments": tuple(
            schema.SyncGroupRequestAssignment(member_id=member_id, assignment=data)
            for member_id, data in sync.assignments.items()
        ),
    }
    if version >= 3:
        fields["group_instance_id"] = sync.group_instance_id
    if version >= 5:
        fields["protocol_type"] = sync.protocol_type
        fields["protocol_name"] = sync.protocol
    return schema.SyncGroupRequest(**fields)


def parse(response: Message) -> SyncAnswer:
    """Read the answer."""
    return SyncAnswer(response.error_code, response.assignment)
