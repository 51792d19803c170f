"""What each error code means for a membership, API by API, as in Kafka's AbstractCoordinator; unknown codes end it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from airflow_kafka_groups.exceptions import BrokerError
from airflow_kafka_groups.protocol.apis import FIND_COORDINATOR, HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP, Api
from airflow_kafka_groups.protocol.error_codes import ErrorCode, broker_error


class Fate(Enum):
    """Say what is to be done after an answer."""

    OK = "go on"
    RETRY = "ask the same coordinator again, after a pause"
    FIND = "find the coordinator again, after a pause"
    REJOIN = "join again, as the same member of the same generation"
    FORGET_GENERATION = "join again as the same member; the generation is gone, and what it gave"
    FORGET_MEMBER = "join again as a new member; the group went on without this one"
    TAKE_MEMBER_ID = "join again at once, under the id the coordinator gave (KIP-394)"
    GONE = "nothing to leave: the group does not know this member"
    END = "the membership has come to its end"


_COORDINATOR = {
    ErrorCode.none: Fate.OK,
    ErrorCode.coordinator_load_in_progress: Fate.RETRY,
    ErrorCode.coordinator_not_available: Fate.FIND,
    ErrorCode.not_coordinator: Fate.FIND,
}
_TABLES: Mapping[Api, Mapping[ErrorCode, Fate]] = {
    FIND_COORDINATOR: {
        ErrorCode.none: Fate.OK,
        ErrorCode.coordinator_load_in_progress: Fate.FIND,
        ErrorCode.coordinator_not_available: Fate.FIND,
        ErrorCode.not_coordinator: Fate.FIND,
    },
    JOIN_GROUP: _COORDINATOR
    | {
        ErrorCode.member_id_required: Fate.TAKE_MEMBER_ID,
        ErrorCode.unknown_member_id: Fate.FORGET_MEMBER,
        ErrorCode.rebalance_in_progress: Fate.RETRY,  # the coordinator did not get this round written; as in Java
    },
    SYNC_GROUP: _COORDINATOR
    | {
        ErrorCode.rebalance_in_progress: Fate.REJOIN,
        ErrorCode.illegal_generation: Fate.FORGET_GENERATION,
        ErrorCode.unknown_member_id: Fate.FORGET_MEMBER,
    },
    HEARTBEAT: _COORDINATOR
    | {
        ErrorCode.rebalance_in_progress: Fate.REJOIN,
        ErrorCode.illegal_generation: Fate.FORGET_GENERATION,
        ErrorCode.unknown_member_id: Fate.FORGET_MEMBER,
    },
    LEAVE_GROUP: _COORDINATOR | {ErrorCode.unknown_member_id: Fate.GONE},
}
_DESCRIPTIONS = {
    ErrorCode.group_authorization_failed: "this user may not join the group (needs Read on it)",
    ErrorCode.group_max_size_reached: "the group has as many members as the broker allows (group.max.size)",
    ErrorCode.inconsistent_group_protocol: (
        "the group has members of another protocol type, or none of this member's protocols is known to all of them"
    ),
    ErrorCode.fenced_instance_id: "another process has joined with the same group.instance.id",
    ErrorCode.invalid_session_timeout: (
        "the broker does not accept this session timeout (group.min.session.timeout.ms, group.max.session.timeout.ms)"
    ),
    ErrorCode.unknown_server_error: (
        "the broker met an unexpected error; metadata and assignments may be larger than __consumer_offsets takes"
    ),
}


def fate(api: Api, code: ErrorCode) -> Fate:
    """Say what an error code means for a membership. What is not known ends it."""
    return _TABLES[api].get(code, Fate.END)


def group_error(code: ErrorCode, api: Api, group_id: str, broker_id: int | None = None) -> BrokerError:
    """Make the exception for a code that ends a membership."""
    return broker_error(code, api, broker_id=broker_id, subject=group_id, message=_DESCRIPTIONS.get(code))
