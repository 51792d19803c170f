"""Heartbeat: a member says that it lives, and learns whether its generation still does.

v0 group, generation, member · v1 throttle time · v3 group.instance.id (KIP-345) · v4 flexible
"""

from __future__ import annotations

from typing import Any

from airflow_kafka_groups.protocol.apis import HEARTBEAT
from airflow_kafka_groups.protocol.codec import Message, request_schema
from airflow_kafka_groups.protocol.error_codes import ErrorCode


def build(group_id: str, generation: int, member_id: str, group_instance_id: str | None, version: int) -> Message:
    """Make a request."""
    fields: dict[str, Any] = {"group_id": group_id, "generation_id": generation, "member_id": member_id}
    if version >= 3:
        fields["group_instance_id"] = group_instance_id
    return request_schema(HEARTBEAT, version).HeartbeatRequest(**fields)


def parse(response: Message) -> ErrorCode:
    """Read the answer, which is nothing but an error code."""
    code: ErrorCode = response.error_code
    return code
