"""A lease that at most one run holds at a time. Kafka's group protocol elects the holder; no other service is needed.

All candidates are members of one group with its own protocol type, and the leader assigns the lease to one of them.
Kafka has no notion of a lease, so this module guarantees *at most one holder at any time*:

1. **A holder keeps the lease.** It sends the generation that assigned the lease in its metadata, and the leader picks
   the newest claim. Others can join and wait, and there is no moment without a holder.
2. **The lease expires here before it can be reassigned.** The coordinator removes a holder when it has received nothing
   for the session timeout, or when it does not rejoin within the rebalance timeout of a round that began after the last
   successful heartbeat. The broker counts both from when it *received* a request; the holder counts from when it *sent*
   it, and only up to ``valid_for``, at most half of either. The clock decides, not an event: a holder that was blocked,
   disconnected or suspended finds the lease expired when it checks.
3. **Only a confirmation counts.** A heartbeat confirms the lease when it returns NONE in the generation of this
   member's assignment, and not during a rejoin; never for more than a session timeout after the one before it, and the
   assignment for no more than that after its JoinGroup. After a silence of a session timeout it demands a rejoin
   instead. Losing the generation or member id ends the lease at once, and so does leaving, before LeaveGroup is sent.
4. **No static membership**: the coordinator would pass the assignment on to a restarted process.

docs/membership.md describes the remaining gap: a check is true only at the moment it is made.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import TracebackType
from typing import Self

import msgspec

from airflow_kafka_groups.exceptions import (
    ConfigurationError,
    KafkaGroupsError,
    LeaseLostError,
    LeaseNotAcquiredError,
    NotSentError,
)
from airflow_kafka_groups.kafka.cluster import clock
from airflow_kafka_groups.kafka.cluster.client import ClusterClient
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.cluster.products import known_id
from airflow_kafka_groups.kafka.membership.member import GroupMember, GroupProtocol, JoinedMember, MemberOptions
from airflow_kafka_groups.kafka.membership.session import MemberSession
from airflow_kafka_groups.kafka.membership.state import Phase, Synced
from airflow_kafka_groups.kafka.models import LEASE_GROUP_ID

_LONGEST_NAME = 1_000


class Bid(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a candidate: name, waiting since (ms), and the generation in which it holds the lease.

    ``term`` makes each request without a claim another one. To a member whose metadata is what it was, a broker answers
    from memory, so one that does not know yet that it is coordinator no more would give a lease that another has.
    """

    owner: str = ""
    since: int
    holds: int | None = None
    term: int = 0


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The assignment sent to all members: the holder's member id and name."""

    holder: str = ""
    owner: str = ""


_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


def read_bid(data: bytes) -> Bid | None:
    """Parse a bid. Returns ``None`` for anything else, so that invalid bytes cannot claim a lease."""
    try:
        return msgspec.json.decode(data, type=Bid)
    except _UNREADABLE:
        return None


@lru_cache(maxsize=64)
def read_grant(data: bytes) -> Grant:
    """Parse a grant. Anything else names no holder."""
    try:
        grant = msgspec.json.decode(data, type=Grant)
    except _UNREADABLE:
        return Grant()
    # The name is for people, and another run chose it: it is shown in logs and errors.
    return msgspec.structs.replace(grant, owner=grant.owner[:_LONGEST_NAME])


def assign(leader_id: str, members: Sequence[JoinedMember]) -> Mapping[str, bytes]:
    """Assign the lease to the newest claim, or else to the longest waiting member, and inform all members."""
    bids = {member.member_id: read_bid(member.metadata) for member in members}
    good = {member_id: bid for member_id, bid in bids.items() if bid is not None}
    claims = {member_id: bid.holds for member_id, bid in good.items() if bid.holds is not None}
    if claims:
        holder = max(claims, key=lambda member_id: (claims[member_id], member_id))
    else:
        holder = min(good, key=lambda member_id: (good[member_id].since, member_id), default=leader_id)
    owner = good[holder].owner if holder in good else ""
    data = msgspec.json.encode(Grant(holder=holder, owner=owner))
    return {member.member_id: data for member in members}


log = logging.getLogger(__name__)

PROTOCOL_TYPE = "airflow-kafka-groups"
PROTOCOL = "lease-v1"
_HEARTBEATS_PER_VALIDITY = 3


class MaintenanceLease:
    """The right to delete on a cluster, as an async context manager.

    :param cluster: a ``ClientConfig``, or an open ``ClusterClient`` to share.
    :param group_id: the group that represents the lease. Default ``airflow-kafka-groups-lease``.
    :param owner: the name of this run as shown to others, e.g. its run id. Default: host and process id.
    :param session_timeout: seconds after which a crashed holder loses the lease. By default brokers accept 6 s to 30
        min. Default 15.
    :param valid_for: seconds for which a heartbeat confirms the lease. At most half of ``session_timeout``, which is
        the default.
    :param acquire_timeout: seconds that ``async with`` waits for a lease held by another run. Default 60.
    :param now: the clock. Replaced in tests.

    Entering raises ``LeaseNotAcquiredError``, which names the holder, when another run still holds the lease after
    ``acquire_timeout``, and ``BrokerError`` when this user may not join (the lease requires READ on its group).
    """

    def __init__(
        self,
        cluster: ClientConfig | ClusterClient,
        *,
        group_id: str = LEASE_GROUP_ID,
        owner: str = "",
        session_timeout: float = 15.0,
        valid_for: float | None = None,
        acquire_timeout: float = 60.0,
        now: clock.Clock = clock.now,
    ) -> None:
        self.valid_for = session_timeout / 2 if valid_for is None else valid_for
        if not 0 < self.valid_for <= session_timeout / 2:
            raise ConfigurationError(
                "valid_for", valid_for, f"must be above 0 and at most half of session_timeout ({session_timeout:g} s)"
            )
        given: object = acquire_timeout
        if not (isinstance(given, int | float) and given >= 0):
            raise ConfigurationError("acquire_timeout", given, "must be a number of seconds, 0 or more")
        self.group_id = group_id
        self.owner = owner or f"{socket.gethostname()}:{os.getpid()}"
        self._options = MemberOptions(
            group_id=group_id,
            session_timeout=session_timeout,
            rebalance_timeout=session_timeout,
            heartbeat_interval=self.valid_for / _HEARTBEATS_PER_VALIDITY,
        )
        self._acquire_timeout = acquire_timeout
        self._owns_cluster = isinstance(cluster, ClientConfig)
        self._cluster = ClusterClient(cluster) if isinstance(cluster, ClientConfig) else cluster
        self._now = now
        self._since = int(time.time() * 1000)
        self._session: MemberSession | None = None
        self.term = 0
        """How often this run requested the lease. While it is unchanged, no other run held the lease."""

    async def __aenter__(self) -> Self:
        try:
            await self.acquire(self._acquire_timeout)
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def acquire(self, timeout: float) -> None:
        """Wait until the lease is held. Joins the group if necessary.

        :param timeout: seconds to wait while another run holds it; 0 takes it only if it is free. The join is not
            included: it lasts until the group answers, or ``session_timeout`` if another member has crashed.

        Raises ``LeaseNotAcquiredError``; then call ``aclose``, or call this again to continue waiting.
        """
        session = self._session or await self._join()
        deadline: float | None = None
        while not self.held:
            if session.membership.synced is not None and session.membership.phase is Phase.STABLE:
                deadline = self._now() + timeout if deadline is None else deadline
                if self._now() >= deadline and not self._is_holder(session.membership.synced):
                    held_by = read_grant(session.membership.synced.assignment).owner
                    raise LeaseNotAcquiredError(
                        self.group_id, f"the lease is held by {held_by!r}; waited {timeout:g} s for it"
                    )
            await session.wait_change(None if deadline is None else max(deadline - self._now(), 0.01))

    async def aclose(self) -> None:
        """Release the lease, so that another run can take it at once. May be called twice."""
        session, self._session = self._session, None
        try:
            if session is not None:
                await session.aclose()
        finally:
            if self._owns_cluster:
                await self._cluster.aclose()

    async def _join(self) -> MemberSession:
        if self._owns_cluster:
            await self._cluster.__aenter__()
        member = _LeaseMember(self)
        session = MemberSession(self._cluster, member, self._options, now=self._now)
        self._session = await session.__aenter__()
        return session

    # The state of the lease; safe to read from any thread

    @property
    def remaining(self) -> float:
        """The seconds for which the lease remains confirmed; 0 when it is not held."""
        synced = self._synced
        if synced is None:
            return 0.0
        return max(synced.confirmed_at + self.valid_for - self._now(), 0.0)

    @property
    def held(self) -> bool:
        """Whether this run holds a confirmed lease at this moment."""
        return self.remaining > 0

    def check(self, at_least: float = 0.0) -> None:
        """Raise ``LeaseLostError`` unless the lease is confirmed. Call it before every step that must not happen twice.

        :param at_least: seconds for which the lease must remain confirmed, e.g. the duration of the step. Less than
            ``valid_for``, and best at most half of it: less remains between two heartbeats.
        """
        remaining = self.remaining
        if remaining <= at_least:
            raise LeaseLostError(self.group_id, self._why(remaining, at_least))

    async def confirm(self, at_least: float = 0.0) -> None:
        """Wait until the lease is confirmed, at most for a session timeout, because a rebalance takes a moment.

        :param at_least: as for ``check``.

        Raises ``LeaseLostError``, immediately when another run holds the lease or the membership has ended.
        """
        deadline = self._now() + self._options.session_timeout
        while (remaining := self.remaining) <= at_least:
            session = self._session
            if session is None or self._synced is None or self._now() >= deadline:
                raise LeaseLostError(self.group_id, self._why(remaining, at_least))
            try:
                await session.wait_change(max(deadline - self._now(), 0.01))
            except KafkaGroupsError as error:
                raise LeaseLostError(self.group_id, self._why(0.0, at_least)) from error

    async def prove(self, within: float) -> None:
        """Wait until the coordinator has accepted a heartbeat that was sent after this call.

        Where a host pauses a machine, all of its clocks stand still, and by them the lease is held. The coordinator's
        clock went on: after a session timeout it has removed this member.

        :param within: seconds to wait for the answer.

        Raises ``LeaseLostError`` if the lease is lost, and ``NotSentError`` if there is no answer in time.
        """
        session, deadline = self._session, self._now() + within
        number = 0 if session is None else session.demand_heartbeat()
        while session is not None and (synced := self._synced) is not None:
            if synced.heartbeat >= number:
                return
            if self._now() >= deadline:
                raise NotSentError(f"the coordinator of the lease {self.group_id!r} answered no heartbeat in time")
            try:
                await session.wait_change(max(deadline - self._now(), 0.01))
            except KafkaGroupsError:
                break
        raise LeaseLostError(self.group_id, self._why(0.0, 0.0))

    @property
    def generation(self) -> int:
        """The generation that assigned the lease to this run, -1 if none did. For the audit."""
        synced = self._synced
        return -1 if synced is None else synced.generation

    @property
    def trouble(self) -> KafkaGroupsError | None:
        """Why the lease's group could not be asked the last time, ``None`` if it always could."""
        session = self._session
        return None if session is None else session.trouble

    @property
    def kafka_cluster_id(self) -> str | None:
        """The id of the cluster whose lease this is; ``None`` while it is not known."""
        return known_id(self._cluster.metadata.cluster_id)

    @property
    def member_id(self) -> str:
        """The member id of this run, "" while it has none. For the audit."""
        session = self._session
        return "" if session is None else session.membership.member_id

    @property
    def _synced(self) -> Synced | None:
        """The assignment that gives this run the lease. Read once: another thread may end the session meanwhile."""
        session = self._session
        synced = None if session is None else session.membership.synced
        return synced if synced is not None and self._is_holder(synced) else None

    @staticmethod
    def _is_holder(synced: Synced) -> bool:
        return read_grant(synced.assignment).holder == synced.member_id

    def _why(self, remaining: float, at_least: float) -> str:
        if remaining > 0:
            most = f"; it is never for more than {self.valid_for:g} s: raise session_timeout, or ask for less"
            more = most if at_least >= self.valid_for else ""
            return f"the lease is confirmed for {remaining:.1f} s, but {at_least:g} s are required{more}"
        session, synced = self._session, self._synced
        if session is None:
            return "the lease was released or never requested"
        if session.membership.failure is not None:
            return f"the lease is lost: {session.membership.failure}"
        if synced is None:
            return "the lease is lost: the group removed this run or assigned the lease to another"
        silent = self._now() - synced.confirmed_at
        return f"the lease is not confirmed: the last confirmation is {silent:.1f} s old"

    def bid(self) -> Bid:
        """Return this run's metadata: since when it waits, and the generation in which it holds the lease."""
        generation = self.generation if self.held else None
        if generation is None:
            self.term += 1  # from here on another run may hold it before this one does
        return Bid(owner=self.owner, since=self._since, holds=generation, term=self.term)


class _LeaseMember(GroupMember):
    """A candidate for the lease. The lease is read from ``Membership.synced``, so nothing is stored here."""

    def __init__(self, lease: MaintenanceLease) -> None:
        self._lease = lease

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    async def metadata(self) -> Sequence[GroupProtocol]:
        return [GroupProtocol(PROTOCOL, msgspec.json.encode(self._lease.bid()))]

    async def perform_assignment(
        self, leader_id: str, protocol: str, all_member_metadata: Sequence[JoinedMember]
    ) -> Mapping[str, bytes]:
        return assign(leader_id, all_member_metadata)

    async def on_join_complete(self, generation: int, member_id: str, protocol: str, assignment: bytes) -> None:
        grant = read_grant(assignment)
        log.info("lease %s: held by %r in generation %d", self._lease.group_id, grant.owner, generation)
