"""Answers to membership requests, made with kio as a broker would send them."""

from collections.abc import Mapping
from typing import Any

from airflow_kafka_groups.kafka.protocol.api_versions import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from airflow_kafka_groups.kafka.protocol.codec import response_schema
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from tests.fakes.answers import fitting


def join(
    version: int,
    member_id: str,
    *,
    error: ErrorCode = ErrorCode.none,
    leader: str = "",
    generation: int = 1,
    members: Mapping[str, bytes] | None = None,
) -> Any:
    schema = response_schema(JOIN_GROUP, version)
    listed = tuple(
        fitting(schema.JoinGroupResponseMember, member_id=key, group_instance_id=None, metadata=data)
        for key, data in (members or {}).items()
    )
    return fitting(
        schema.JoinGroupResponse,
        error_code=error,
        generation_id=generation,
        protocol_type=None,
        protocol_name="p1",
        leader=leader,
        skip_assignment=False,
        member_id=member_id,
        members=listed,
    )


def sync(version: int, assignment: bytes = b"", error: ErrorCode = ErrorCode.none) -> Any:
    response = response_schema(SYNC_GROUP, version).SyncGroupResponse
    return fitting(response, error_code=error, protocol_type=None, protocol_name=None, assignment=assignment)


def heartbeat(version: int, error: ErrorCode = ErrorCode.none) -> Any:
    return fitting(response_schema(HEARTBEAT, version).HeartbeatResponse, error_code=error)


def leave(version: int, error: ErrorCode = ErrorCode.none) -> Any:
    return fitting(response_schema(LEAVE_GROUP, version).LeaveGroupResponse, error_code=error, members=())
