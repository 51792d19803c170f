"""The membership of one member as a state machine: plain functions of (state, message, now). No I/O, no clock.

::

    UNJOINED --join--> JOINING --leader--> ASSIGNING --sync--> SYNCING --> COMPLETING --> STABLE
       ^                  |  `--follower---------------------^    |            |            |
       `------------------+---------------------------------------+------------+------------'   a rebalance, or an error
    FAILED: the membership has come to its end, ``failure`` says why.          LEFT: on purpose

Rule 1: everything that changes the state is in this file. ``next_step`` says what is to be done next; whoever does it
reports with an ``on_...`` method. Rule 2: heartbeats run beside the steps, but never while a JoinGroup or SyncGroup is
on its way: those are heartbeats themselves, and the broker answers one connection in order. Rule 3: the answer to a
heartbeat counts only if the member is still who it was when it was sent.

``synced`` is what the member holds by its last completed sync, and when the coordinator last confirmed it. It outlives
the beginning of a rebalance and ends with the next sync, a lost generation, or with leaving; see lease.py for why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from airflow_kafka_groups.exceptions import (
    CallbackFailedError,
    ConfigurationError,
    InvalidAssignmentError,
    KafkaGroupsError,
    MembershipError,
)
from airflow_kafka_groups.membership import actions as steps
from airflow_kafka_groups.membership.actions import Phase, Synced
from airflow_kafka_groups.membership.error_actions import Fate, fate, group_error
from airflow_kafka_groups.membership.member import GroupProtocol, JoinedMember, check_protocols
from airflow_kafka_groups.membership.options import MemberOptions
from airflow_kafka_groups.protocol.apis import FIND_COORDINATOR, HEARTBEAT, JOIN_GROUP, SYNC_GROUP, Api
from airflow_kafka_groups.protocol.error_codes import ErrorCode
from airflow_kafka_groups.protocol.membership_apis.join_group import JoinAnswer, JoinRequest
from airflow_kafka_groups.protocol.membership_apis.sync_group import SyncAnswer, SyncRequest

NO_GENERATION = -1
NO_MEMBER = ""

_HOLDING = (Phase.COMPLETING, Phase.STABLE)
_BEATING = (Phase.UNJOINED, Phase.ASSIGNING, *_HOLDING)


class Membership:
    """Keep the state of one membership.

    :param options: group and timeouts.
    :param protocol_type: the class of protocols, the same for all members.
    """

    def __init__(self, options: MemberOptions, protocol_type: str) -> None:
        if not protocol_type:
            raise ConfigurationError("protocol_type", protocol_type, "name the class of protocols, e.g. consumer")
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
        self._members: tuple[JoinedMember, ...] = ()
        self._assignments: Mapping[str, bytes] = {}
        self._prepared = False
        self._rejoin = False
        self._failures = 0
        self._tries = 0
        self._pause_until = 0.0
        self._beat_at = 0.0

    @property
    def is_leader(self) -> bool:
        """Say whether this member leads its generation."""
        return self.generation != NO_GENERATION and self.member_id == self.leader_id

    # What to do next

    def next_step(self, now: float) -> steps.Step:
        """Say what is to be done now."""
        if self.failure is not None:
            return steps.Stop(self.failure)
        if self.phase is Phase.STABLE and self._rejoin:
            self.phase, self._prepared = Phase.UNJOINED, False
        if self.phase is Phase.UNJOINED and not self._prepared:
            return steps.Prepare(self.generation, self.member_id)
        if now < self._pause_until:
            return steps.Pause(self._pause_until)
        if not self.coordinator_known and self.phase is not Phase.COMPLETING:
            return steps.Find()
        match self.phase:
            case Phase.UNJOINED:
                return steps.Join()
            case Phase.ASSIGNING:
                return steps.Assign(self.member_id, self.protocol, self._members)
            case Phase.SYNCING:
                return steps.Sync()
            case Phase.COMPLETING if self.synced is not None:
                return steps.Complete(self.generation, self.member_id, self.protocol, self.synced.assignment)
        return steps.Idle()

    def rejoin(self, reason: str) -> None:
        """Begin a new round as soon as the one under way is over, e.g. because the metadata has changed."""
        self._rejoin, self._reason = True, reason

    def stop(self, error: KafkaGroupsError) -> None:
        """End the membership because of an error; whoever runs it leaves the group."""
        self.phase, self.failure = Phase.FAILED, self.failure or error
        self.synced = None

    def leave(self) -> bool:
        """End the membership on purpose; from now on nothing is held. Say whether the coordinator is to be told."""
        known = self.member_id != NO_MEMBER and self.options.group_instance_id is None
        if self.phase is not Phase.FAILED:
            self.phase = Phase.LEFT
        self.synced = None
        return known

    # The coordinator

    def on_found(self, code: ErrorCode, now: float) -> None:
        """Take the answer to FindCoordinator."""
        if fate(FIND_COORDINATOR, code) is Fate.OK:
            self.coordinator_known = True
        else:
            self._on_trouble(FIND_COORDINATOR, code, now)

    def on_lost(self, now: float) -> None:
        """Take note that a JoinGroup or SyncGroup found no answer; it may have arrived all the same."""
        self.coordinator_known = False
        if self.phase in (Phase.JOINING, Phase.SYNCING):
            self.phase = Phase.UNJOINED
        self._pause(now)

    # Joining

    def on_prepared(self) -> None:
        """Take note that ``on_join_prepare`` is done."""
        self._prepared = True

    def join(self, protocols: Sequence[GroupProtocol]) -> JoinRequest:
        """Make the JoinGroup of this round.

        Raises ``ConfigurationError`` for protocols that cannot be joined with; nothing was sent then.
        """
        check_protocols(protocols)
        self.phase, self._rejoin = Phase.JOINING, False
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
        """Take the answer to JoinGroup."""
        if self.phase is not Phase.JOINING:
            return
        if fate(JOIN_GROUP, answer.error) is Fate.TAKE_MEMBER_ID:
            self.phase, self.member_id = Phase.UNJOINED, answer.member_id
            return
        if fate(JOIN_GROUP, answer.error) is not Fate.OK:
            self.phase = Phase.UNJOINED
            self._on_trouble(JOIN_GROUP, answer.error, now)
            return
        if answer.protocol_type not in (None, self.protocol_type):
            reason = f"it has protocol type {answer.protocol_type!r}, this member {self.protocol_type!r}"
            self.stop(MembershipError(self.options.group_id, reason))
            return
        self.member_id, self.generation, self.leader_id = answer.member_id, answer.generation, answer.leader
        self.protocol, self._members, self._assignments = answer.protocol or "", answer.members, {}
        self._reason = None
        leads = self.is_leader and not answer.skip_assignment
        self.phase = Phase.ASSIGNING if leads else Phase.SYNCING
        self._beat_at = now + self.options.heartbeat_interval  # due at once if SyncGroup waits longer for the leader

    def on_assigned(self, assignments: Mapping[str, bytes]) -> None:
        """Take what ``perform_assignment`` made; the generation may have been lost meanwhile."""
        if self.phase is not Phase.ASSIGNING:
            return
        members = {member.member_id for member in self._members}
        if members != set(assignments):
            missing, invented = members - set(assignments), set(assignments) - members
            self.stop(InvalidAssignmentError(self.options.group_id, missing, invented))
            return
        self.phase, self._assignments = Phase.SYNCING, dict(assignments)

    def sync(self) -> SyncRequest:
        """Make the SyncGroup of this round."""
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
        """Take the answer to SyncGroup: from here on the member holds what it was given, and only that."""
        if self.phase is not Phase.SYNCING:
            return
        if fate(SYNC_GROUP, answer.error) is not Fate.OK:
            self.phase = Phase.UNJOINED
            self._on_trouble(SYNC_GROUP, answer.error, now)
            return
        self.synced = Synced(self.generation, self.member_id, self.protocol, answer.assignment, sent_at)
        self.phase, self._failures, self._tries, self._prepared = Phase.COMPLETING, 0, 0, False

    def on_completed(self) -> None:
        """Take note that ``on_join_complete`` is done."""
        if self.phase is Phase.COMPLETING:
            self.phase = Phase.STABLE

    def on_complete_failed(self, error: Exception, now: float) -> None:
        """Take note that ``on_join_complete`` raised: it is called again with the same state, while that is true."""
        if self.phase is not Phase.COMPLETING:
            return
        self._tries += 1
        if self._tries >= self.options.callback_tries:
            reason = f"on_join_complete() failed {self._tries} times: {error!r}"
            failure = CallbackFailedError(self.options.group_id, reason)
            failure.__cause__ = error
            self.stop(failure)
        elif self._rejoin:
            self.phase = Phase.UNJOINED  # a new round has begun, and will bring a state of its own
        else:
            self._pause(now)

    # Heartbeats

    def beat_at(self) -> float | None:
        """Give the time of the next heartbeat, ``None`` while there is none to send."""
        joined = self.generation != NO_GENERATION and self.member_id != NO_MEMBER
        return self._beat_at if joined and self.phase in _BEATING else None

    def beat(self, now: float) -> steps.Beat:
        """Make a heartbeat."""
        self._beat_at = now + self.options.heartbeat_interval
        return steps.Beat(self.generation, self.member_id, self.phase in _HOLDING, now)

    def on_beat(self, beat: steps.Beat, code: ErrorCode, now: float) -> None:
        """Take the answer to a heartbeat."""
        if (beat.generation, beat.member_id) != (self.generation, self.member_id) or self.phase not in _BEATING:
            return
        verdict = fate(HEARTBEAT, code)
        if verdict is Fate.OK:
            self._failures = 0
            if beat.holding and self.phase in _HOLDING and self.synced is not None:
                self.synced = replace(self.synced, confirmed_at=beat.sent_at)
        elif verdict is Fate.REJOIN:
            # Old brokers say so while the leader assigns; then the answer to SyncGroup decides.
            self._rejoin = self._rejoin or self.phase in _HOLDING
        else:
            self._on_trouble(HEARTBEAT, code, now)

    def on_beat_lost(self, beat: steps.Beat, now: float) -> None:
        """Take note that a heartbeat found no answer; a join that has begun meanwhile goes on."""
        if beat.generation == self.generation and self.phase in _BEATING:
            self.coordinator_known = False
            self._pause(now)

    # Trouble

    def _on_trouble(self, api: Api, code: ErrorCode, now: float) -> None:
        match fate(api, code):
            case Fate.FIND | Fate.RETRY as verdict:
                self.coordinator_known = verdict is Fate.RETRY
                self._pause(now)
            case Fate.FORGET_GENERATION:
                self._forget()
            case Fate.FORGET_MEMBER:
                self.member_id = NO_MEMBER
                self._forget()
            case Fate.END:
                self.stop(group_error(code, api, self.options.group_id))

    def _forget(self) -> None:
        self.generation, self.leader_id, self.synced = NO_GENERATION, NO_MEMBER, None
        if self.phase in _HOLDING:
            self._prepared = False
        self.phase = Phase.UNJOINED

    def _pause(self, now: float) -> None:
        pause = self.options.retry_backoff * 2 ** min(self._failures, 30)
        self._pause_until = now + min(pause, self.options.max_backoff)
        self._failures += 1
        self._beat_at = self._pause_until
