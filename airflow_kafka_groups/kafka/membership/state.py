"""The state machine of one membership: plain functions of (state, message, now). No I/O, no clock.

::

    UNJOINED --join--> JOINING --leader--> ASSIGNING --sync--> SYNCING --> COMPLETING --> STABLE
       ^                  |  `--follower---------------------^    |            |            |
       `------------------+---------------------------------------+------------+------------'   a rebalance, or an error

    FAILED: ended by an error, see ``failure``.          LEFT: ended on purpose

Rule 1: all state changes happen in this file. ``next_action`` returns the action to perform; the caller reports the
outcome to an ``on_...`` method. Rule 2: heartbeats run beside the actions, but never while a JoinGroup or SyncGroup is
in flight: the broker counts those as heartbeats, and answers one connection in order. Rule 3: a heartbeat response
counts only if the member id and generation are still those it was sent with.

``synced``, the assignment, outlives the start of a rebalance; the next sync, a lost generation, or leaving ends it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from airflow_kafka_groups.exceptions import (
    CallbackFailedError,
    ConfigurationError,
    InvalidAssignmentError,
    KafkaGroupsError,
    MembershipError,
)
from airflow_kafka_groups.kafka.membership.member import (
    GroupProtocol,
    JoinedMember,
    MemberOptions,
)
from airflow_kafka_groups.kafka.protocol.answers import JoinAnswer, SyncAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import (
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    SYNC_GROUP,
    Api,
)
from airflow_kafka_groups.kafka.protocol.apis.membership import JoinRequest, SyncRequest
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


class NextAction(Enum):
    """What the caller does next."""

    PREPARE = "call on_join_prepare"
    FIND = "look the coordinator up"
    JOIN = "call metadata, and send JoinGroup"
    ASSIGN = "call perform_assignment"
    SYNC = "send SyncGroup"
    COMPLETE = "call on_join_complete"
    PAUSE = "wait until pause_until, or until something changes"
    IDLE = "wait until something changes"
    STOP = "leave the group: the membership has failed"


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
    FIND_COORDINATOR: _COORDINATOR | {ErrorCode.coordinator_load_in_progress: ErrorAction.FIND},
    JOIN_GROUP: _COORDINATOR
    | {
        ErrorCode.member_id_required: ErrorAction.TAKE_MEMBER_ID,
        ErrorCode.unknown_member_id: ErrorAction.FORGET_MEMBER,
        ErrorCode.rebalance_in_progress: ErrorAction.RETRY,  # the coordinator could not write this round; as in Java
    },
    SYNC_GROUP: _IN_GENERATION,
    HEARTBEAT: _IN_GENERATION,
}
_MAY_BE_TOO_LARGE = (
    "the broker met an unexpected error; metadata and assignments may be too large for a record of __consumer_offsets"
)


def error_action(api: Api, code: ErrorCode) -> ErrorAction:
    """Return the action for an error code. An unknown code ends the membership."""
    return _TABLES[api].get(code, ErrorAction.END)


def _may_join(protocol: object) -> bool:
    return isinstance(protocol, GroupProtocol) and bool(protocol.name) and isinstance(protocol.metadata, bytes)


NO_GENERATION = -1
NO_MEMBER = ""

_ASSIGNED_PHASES = (Phase.COMPLETING, Phase.STABLE)
_HEARTBEAT_PHASES = (Phase.UNJOINED, Phase.ASSIGNING, *_ASSIGNED_PHASES)


class Membership:
    """The state of one membership.

    :param options: group and timeouts.
    :param protocol_type: the class of protocols, the same for all members.
    """

    def __init__(self, options: MemberOptions, protocol_type: str) -> None:
        if not protocol_type:
            raise ConfigurationError("protocol_type", protocol_type, "must be the class of protocols, e.g. consumer")
        self.options = options
        self.protocol_type = protocol_type
        self.phase = Phase.UNJOINED
        self.generation = NO_GENERATION
        self.member_id = NO_MEMBER
        self.leader_id = NO_MEMBER
        self.protocol = ""
        self.failure: KafkaGroupsError | None = None
        self.synced: Synced | None = None
        self.coordinator_known = False
        self._reason: str | None = None
        self.members: tuple[JoinedMember, ...] = ()
        self._assignments: Mapping[str, bytes] = {}
        self._prepared = False
        self._rejoin = False
        self._asked_at = 0.0  # JoinGroup of this round, and then SyncGroup
        self._failures = 0
        self._tries = 0
        self.pause_until = 0.0
        self._heartbeat_at = 0.0
        self._heartbeats = 0

    @property
    def is_leader(self) -> bool:
        """Whether this member leads its generation."""
        return self.generation != NO_GENERATION and self.member_id == self.leader_id

    def next_action(self, now: float) -> NextAction:
        """Return the action to perform now."""
        if self.failure is not None:
            return NextAction.STOP
        if self.phase is Phase.STABLE and self._rejoin:
            self.phase, self._prepared = Phase.UNJOINED, False
        if self.phase is Phase.UNJOINED and not self._prepared:
            return NextAction.PREPARE
        if now < self.pause_until:
            return NextAction.PAUSE
        if not self.coordinator_known and self.phase is not Phase.COMPLETING:
            return NextAction.FIND
        match self.phase:
            case Phase.UNJOINED:
                self._rejoin, self._asked_at = False, now  # changes of metadata from here on may be too late for this
                return NextAction.JOIN
            case Phase.ASSIGNING:
                return NextAction.ASSIGN
            case Phase.SYNCING:
                return NextAction.SYNC
            case Phase.COMPLETING if self.synced is not None:
                return NextAction.COMPLETE
        return NextAction.IDLE

    def rejoin(self, reason: str) -> None:
        """Start a new round as soon as the current one is over, e.g. because the metadata has changed."""
        self._rejoin, self._reason = True, reason

    def stop(self, error: KafkaGroupsError) -> None:
        """End the membership with an error. The caller leaves the group."""
        self.phase, self.failure = Phase.FAILED, self.failure or error
        self.synced = None

    def leave(self) -> bool:
        """End the membership on purpose and drop the assignment. Returns whether it had begun."""
        if self.phase is not Phase.FAILED:
            self.phase = Phase.LEFT
        self.synced = None
        return self.member_id != NO_MEMBER

    def on_found(self, code: ErrorCode, now: float) -> None:
        """Process the response to FindCoordinator."""
        if error_action(FIND_COORDINATOR, code) is ErrorAction.OK:
            self.coordinator_known = True
        else:
            self._on_error(FIND_COORDINATOR, code, now)

    def on_lost(self, now: float) -> None:
        """Record that JoinGroup or SyncGroup failed without a response. The broker may still have received it."""
        self.coordinator_known = False
        if self.phase in (Phase.JOINING, Phase.SYNCING):
            self.phase = Phase.UNJOINED
        self._pause(now)

    # Joining

    def on_prepared(self) -> None:
        """Record that ``on_join_prepare`` has returned."""
        self._prepared = True

    def join(self, protocols: Sequence[GroupProtocol]) -> JoinRequest:
        """Build the JoinGroup request. Raises ``ConfigurationError`` for protocols that it would not accept."""
        if not protocols or not all(map(_may_join, protocols)):
            remedy = "return at least one GroupProtocol, each with a name and with metadata in bytes"
            raise ConfigurationError("metadata()", protocols, remedy)
        self.phase = Phase.JOINING
        return JoinRequest(
            group_id=self.options.group_id,
            member_id=self.member_id,
            group_instance_id=self.options.group_instance_id,
            protocol_type=self.protocol_type,
            protocols=[(protocol.name, protocol.metadata) for protocol in protocols],
            session_timeout=self.options.session_timeout,
            rebalance_timeout=self.options.rebalance_timeout,
            reason=self._reason,
        )

    def on_joined(self, answer: JoinAnswer, now: float) -> None:
        """Process the response to JoinGroup."""
        if self.phase is not Phase.JOINING:
            return
        if error_action(JOIN_GROUP, answer.error) is ErrorAction.TAKE_MEMBER_ID:
            self.phase, self.member_id = Phase.UNJOINED, answer.member_id
            return
        if error_action(JOIN_GROUP, answer.error) is not ErrorAction.OK:
            self.phase = Phase.UNJOINED
            self._on_error(JOIN_GROUP, answer.error, now)
            return
        if answer.protocol_type not in (None, self.protocol_type):
            reason = f"the group has protocol type {answer.protocol_type!r}, this member has {self.protocol_type!r}"
            self.stop(MembershipError(self.options.group_id, reason))
            return
        self.member_id, self.generation, self.leader_id = answer.member_id, answer.generation, answer.leader
        self.protocol, self.members, self._assignments, self._reason = answer.protocol or "", answer.members, {}, None
        self.phase = Phase.ASSIGNING if self.is_leader and not answer.skip_assignment else Phase.SYNCING
        # Due immediately if SyncGroup waits longer for the leader.
        self._heartbeat_at = now + self.options.heartbeat_interval

    def on_assigned(self, assignments: Mapping[str, bytes]) -> None:
        """Take the result of ``perform_assignment``, unless the generation was lost meanwhile."""
        if self.phase is not Phase.ASSIGNING:
            return
        members = {member.member_id for member in self.members}
        if members != set(assignments):
            missing, invented = members - set(assignments), set(assignments) - members
            self.stop(InvalidAssignmentError(self.options.group_id, missing, invented))
            return
        self.phase, self._assignments = Phase.SYNCING, dict(assignments)

    def sync(self) -> SyncRequest:
        """Build the SyncGroup request of this round."""
        return SyncRequest(
            group_id=self.options.group_id,
            generation=self.generation,
            member_id=self.member_id,
            group_instance_id=self.options.group_instance_id,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            assignments=self._assignments,
        )

    def on_synced(self, answer: SyncAnswer, sent_at: float, now: float) -> None:
        """Process the response to SyncGroup, which replaces the previous assignment."""
        if self.phase is not Phase.SYNCING:
            return
        if error_action(SYNC_GROUP, answer.error) is not ErrorAction.OK:
            self.phase = Phase.UNJOINED
            self._on_error(SYNC_GROUP, answer.error, now)
            return
        synced = Synced(self.generation, self.member_id, self.protocol, answer.assignment, self._asked_at)
        self.synced, self._asked_at = synced.confirmed(sent_at, self.options.session_timeout / 2), sent_at
        self.phase, self._failures, self._tries, self._prepared = Phase.COMPLETING, 0, 0, False

    def on_completed(self) -> None:
        """Record that ``on_join_complete`` has returned."""
        if self.phase is Phase.COMPLETING:
            self.phase = Phase.STABLE

    def on_complete_failed(self, error: Exception, now: float) -> None:
        """Record that ``on_join_complete`` raised. It is retried while the assignment is current."""
        if self.phase is not Phase.COMPLETING:
            return
        self._tries += 1
        if self._tries >= self.options.callback_tries:
            reason = f"on_join_complete() failed {self._tries} times: {error!r}"
            failure = CallbackFailedError(self.options.group_id, reason)
            failure.__cause__ = error
            self.stop(failure)
        elif self._rejoin:
            self.phase = Phase.UNJOINED  # a new round has begun, with a new assignment
        else:
            self._pause(now)

    # Heartbeats

    def heartbeat_at(self) -> float | None:
        """Return the time of the next heartbeat, ``None`` while none is to be sent."""
        joined = self.generation != NO_GENERATION and self.member_id != NO_MEMBER
        return self._heartbeat_at if joined and self.phase in _HEARTBEAT_PHASES else None

    def next_heartbeat(self, now: float) -> Heartbeat:
        """Build a heartbeat."""
        self._heartbeat_at = now + self.options.heartbeat_interval
        self._heartbeats += 1
        return Heartbeat(self.generation, self.member_id, self.phase in _ASSIGNED_PHASES, now, self._heartbeats)

    def demand_heartbeat(self, now: float) -> int:
        """Make a heartbeat due at once. Returns its number: it and all later ones are sent after this call."""
        self._heartbeat_at = min(self._heartbeat_at, now)
        return self._heartbeats + 1

    def on_heartbeat(self, sent: Heartbeat, code: ErrorCode, now: float) -> None:
        """Process the response to a heartbeat."""
        current = (self.generation, self.member_id)
        if (sent.generation, sent.member_id) != current or self.phase not in _HEARTBEAT_PHASES:
            return
        action = error_action(HEARTBEAT, code)
        if action is ErrorAction.OK:
            self._failures = 0
            if sent.holding and self.phase in _ASSIGNED_PHASES and self.synced is not None:
                # Until the answer: the broker may have been suspended when it had the request. A round may be long.
                silent = now - max(self.synced.confirmed_at, self._asked_at)
                if silent < self.options.rebalance_timeout:
                    most = self.options.session_timeout / 2
                    self.synced = self.synced.confirmed(sent.sent_at, most, sent.number)
                    if silent > self.options.session_timeout / 2:  # by the next one, it knows who has taken its place
                        self._heartbeat_at = now + self.options.heartbeat_interval
                else:  # who answers may have been suspended, too, and be coordinator no more: a join finds out
                    self.rejoin("silent for too long")
        elif action is ErrorAction.REJOIN:
            # Old brokers return this while the leader assigns; the SyncGroup response decides then.
            self._rejoin = self._rejoin or self.phase in _ASSIGNED_PHASES
        else:
            self._on_error(HEARTBEAT, code, now)

    def on_heartbeat_lost(self, sent: Heartbeat, now: float) -> None:
        """Record that a heartbeat failed without a response. A join that has begun meanwhile is not affected."""
        if sent.generation == self.generation and self.phase in _HEARTBEAT_PHASES:
            self.coordinator_known = False
            self._pause(now)

    def _on_error(self, api: Api, code: ErrorCode, now: float) -> None:
        match error_action(api, code):
            case ErrorAction.FIND | ErrorAction.RETRY as action:
                self.coordinator_known = action is ErrorAction.RETRY
                self._pause(now)
            case ErrorAction.FORGET_GENERATION:
                self._forget()
            case ErrorAction.FORGET_MEMBER:
                self.member_id = NO_MEMBER
                self._forget()
            case ErrorAction.END:
                said = _MAY_BE_TOO_LARGE if code is ErrorCode.unknown_server_error else None
                self.stop(broker_error(code, api, subject=self.options.group_id, message=said))

    def _forget(self) -> None:
        self.generation, self.leader_id, self.synced = NO_GENERATION, NO_MEMBER, None
        if self.phase in _ASSIGNED_PHASES:
            self._prepared = False
        self.phase = Phase.UNJOINED

    def _pause(self, now: float) -> None:
        pause = self.options.retry_backoff * 2 ** min(self._failures, 30)
        self.pause_until = self._heartbeat_at = now + min(pause, self.options.max_backoff)
        self._failures += 1
