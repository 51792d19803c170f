"""The action for each error code of each API, as in Kafka's AbstractCoordinator. Unknown codes end the membership."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from airflow_kafka_groups.exceptions import BrokerError
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode, broker_error
from airflow_kafka_groups.kafka.protocol.protocol_apis import (
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    SYNC_GROUP,
    Api,
)


class ErrorAction(Enum):
    """What a member does after a response."""

    OK = "go on"
    RETRY = "ask the same coordinator again, after a pause"
    FIND = "find the coordinator again, after a pause"
    REJOIN = "join again, as the same member of the same generation"
    FORGET_GENERATION = "join again as the same member; the generation and its assignment are lost"
    FORGET_MEMBER = "join again as a new member; the group removed this one"
    TAKE_MEMBER_ID = "join again at once with the id from the coordinator (KIP-394)"
    GONE = "nothing to leave: the group does not know this member"
    END = "the membership has ended"


_COORDINATOR = {
    ErrorCode.none: ErrorAction.OK,
    ErrorCode.coordinator_load_in_progress: ErrorAction.RETRY,
    ErrorCode.coordinator_not_available: ErrorAction.FIND,
    ErrorCode.not_coordinator: ErrorAction.FIND,
}
_IN_GENERATION = _COORDINATOR | {
    ErrorCode.rebalance_in_progress: ErrorAction.REJOIN,
    ErrorCode.illegal_generation: ErrorAction.FORGET_GENERATION,
    ErrorCode.unknown_member_id: ErrorAction.FORGET_MEMBER,
}
_TABLES: Mapping[Api, Mapping[ErrorCode, ErrorAction]] = {
    FIND_COORDINATOR: {
        ErrorCode.none: ErrorAction.OK,
        ErrorCode.coordinator_load_in_progress: ErrorAction.FIND,
        ErrorCode.coordinator_not_available: ErrorAction.FIND,
        ErrorCode.not_coordinator: ErrorAction.FIND,
    },
    JOIN_GROUP: _COORDINATOR
    | {
        ErrorCode.member_id_required: ErrorAction.TAKE_MEMBER_ID,
        ErrorCode.unknown_member_id: ErrorAction.FORGET_MEMBER,
        ErrorCode.rebalance_in_progress: ErrorAction.RETRY,  # the coordinator could not write this round; as in Java
    },
    SYNC_GROUP: _IN_GENERATION,
    HEARTBEAT: _IN_GENERATION,
    LEAVE_GROUP: _COORDINATOR | {ErrorCode.unknown_member_id: ErrorAction.GONE},
}
_DESCRIPTIONS = {
    ErrorCode.group_authorization_failed: "this user may not join the group (requires READ on it)",
    ErrorCode.group_max_size_reached: "the group has as many members as the broker allows (group.max.size)",
    ErrorCode.inconsistent_group_protocol: (
        "the group has members of another protocol type, or no protocol of this member is supported by all of them"
    ),
    ErrorCode.fenced_instance_id: "another process has joined with the same group.instance.id",
    ErrorCode.invalid_session_timeout: (
        "the broker does not accept this session timeout (group.min.session.timeout.ms, group.max.session.timeout.ms)"
    ),
    ErrorCode.unknown_server_error: (
        "unexpected broker error; metadata and assignments may be too large for a record of __consumer_offsets"
    ),
}


def error_action(api: Api, code: ErrorCode) -> ErrorAction:
    """Return the action for an error code. An unknown code ends the membership."""
    return _TABLES[api].get(code, ErrorAction.END)


def group_error(code: ErrorCode, api: Api, group_id: str) -> BrokerError:
    """Build the exception for a code that ends a membership."""
    return broker_error(code, api, subject=group_id, message=_DESCRIPTIONS.get(code))
