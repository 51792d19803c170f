"""The actions that ``state`` requests and ``session`` performs, among them one for each error code of each API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from airflow_kafka_groups.exceptions import BrokerError, KafkaGroupsError
from airflow_kafka_groups.kafka.protocol.answers import JoinedMember
from airflow_kafka_groups.kafka.protocol.api_versions import (
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    SYNC_GROUP,
    Api,
)
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode, broker_error


class Phase(Enum):
    """The phase of a membership."""

    UNJOINED = "unjoined"
    JOINING = "joining"
    ASSIGNING = "assigning"
    SYNCING = "syncing"
    COMPLETING = "completing"
    STABLE = "stable"
    FAILED = "failed"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Synced:
    """The assignment of this member, and when the coordinator last confirmed it.

    ``confirmed_at`` is when the confirming request was *sent*, so it is never later than the confirmation. After a
    silence it may be earlier. ``heartbeat`` is the number of the last heartbeat that was accepted, 0 before the first.
    """

    generation: int
    member_id: str
    protocol: str
    assignment: bytes
    confirmed_at: float
    heartbeat: int = 0

    def confirmed(self, sent_at: float, most: float, heartbeat: int = 0) -> Synced:
        """Return this assignment, confirmed by an answer for no more than so many seconds longer than before.

        A broker that was suspended together with this member answers as if it still were the coordinator. Its successor
        has waited for a session timeout since the confirmation before, and not since this one. Before the first one, it
        has waited since JoinGroup was sent.
        """
        return replace(self, confirmed_at=min(sent_at, self.confirmed_at + most), heartbeat=heartbeat)


@dataclass(frozen=True, slots=True)
class Prepare:
    """A call of ``on_join_prepare``."""

    generation: int
    member_id: str


@dataclass(frozen=True, slots=True)
class Find:
    """The lookup of the coordinator."""


@dataclass(frozen=True, slots=True)
class Join:
    """A call of ``metadata``, followed by JoinGroup."""


@dataclass(frozen=True, slots=True)
class Assign:
    """A call of ``perform_assignment``."""

    leader_id: str
    protocol: str
    members: tuple[JoinedMember, ...]


@dataclass(frozen=True, slots=True)
class Sync:
    """A SyncGroup request."""


@dataclass(frozen=True, slots=True)
class Complete:
    """A call of ``on_join_complete``."""

    generation: int
    member_id: str
    protocol: str
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause until a given time, or until something changes."""

    until: float


@dataclass(frozen=True, slots=True)
class Idle:
    """A pause until something changes."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The end of the membership: the group is left."""

    error: KafkaGroupsError


Action: TypeAlias = Prepare | Find | Join | Assign | Sync | Complete | Pause | Idle | Stop


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A heartbeat that was sent. ``holding``: whether the member had its assignment at that time.

    ``number`` grows with each one: which of two was sent later shows also where all clocks stood still.
    """

    generation: int
    member_id: str
    holding: bool
    sent_at: float
    number: int = 0


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
