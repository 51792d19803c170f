"""A lease: of many runs at most one holds it. Kafka's group protocol elects the holder; no other service is needed.

All who want the lease are members of one group, of a protocol type of its own; the leader gives the lease to one of
them. Kafka knows nothing of "holding", so it is this file that has to make sure of *at most one at any time*:

1. **Who holds keeps.** A holder says so in its metadata (with the generation that gave it the lease), and the leader
   gives the lease to the newest claim. So others may come and wait without a moment in which nobody holds.
2. **The lease ends here before it can be given away there.** The coordinator gives a holder up when it has not heard of
   it for the session timeout, or when it does not rejoin within the rebalance timeout of a round that began after the
   last good heartbeat. Both are counted at the broker from the moment it *got* a request; the holder counts from the
   moment it *sent* it, and only up to ``valid_for``, which is at most half of either. The clock decides, not an event:
   a holder whose event loop is blocked, that is cut off, or that slept, is no holder when it looks again.
3. **Only certainty counts.** A heartbeat confirms the lease if it says NONE in the generation whose assignment this
   member has; not while it rejoins. A lost generation or member id ends the lease at once; so does leaving, before
   LeaveGroup is sent.
4. **No static membership**: the coordinator would hand a restarted process the assignment of the one it replaces.

What remains is said in docs/membership.md: a check is a check of that moment.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from airflow_kafka_groups.cluster.client import ClusterClient
from airflow_kafka_groups.cluster.config import ClientConfig
from airflow_kafka_groups.exceptions import (
    ConfigurationError,
    KafkaGroupsError,
    LeaseLostError,
    LeaseNotAcquiredError,
)
from airflow_kafka_groups.membership import clock
from airflow_kafka_groups.membership import lease_assignor as grants
from airflow_kafka_groups.membership.actions import Phase, Synced
from airflow_kafka_groups.membership.lease_assignor import Bid
from airflow_kafka_groups.membership.member import GroupMember, GroupProtocol, JoinedMember
from airflow_kafka_groups.membership.options import MemberOptions
from airflow_kafka_groups.membership.session import MemberSession
from airflow_kafka_groups.transport.base import Connector

log = logging.getLogger(__name__)

GROUP_ID = "airflow-kafka-groups-lease"  # maintenance/patterns.py protects it, by this very name
PROTOCOL_TYPE = "airflow-kafka-groups"
PROTOCOL = "lease-v1"
_BEATS_IN_VALIDITY = 3


class MaintenanceLease:
    """Hold the right to delete on a cluster. Use it as an async context manager.

    :param cluster: a ``ClientConfig``, or an open ``ClusterClient`` to share.
    :param group_id: the group that stands for the lease. Default ``airflow-kafka-groups-lease``.
    :param owner: how this run is named to the others, e.g. its run id. Default: host and process id.
    :param session_timeout: seconds after which a crashed holder is given up. The broker accepts 6 s to 30 min unless
        configured otherwise. Default 15.
    :param valid_for: seconds for which the lease is certain after a heartbeat; at most half of ``session_timeout``,
        which is the default.
    :param acquire_timeout: seconds for which ``async with`` waits for a lease that another holds. Default 60.
    :param connect: opens a connection; a test passes its own. Default: the real one.
    :param now: the clock; a test passes its own.

    Entering raises ``LeaseNotAcquiredError`` when another holds the lease for longer, naming that one, and
    ``BrokerError`` when the cluster does not let this user join (the lease needs READ on its group).
    """

    def __init__(
        self,
        cluster: ClientConfig | ClusterClient,
        *,
        group_id: str = GROUP_ID,
        owner: str = "",
        session_timeout: float = 15.0,
        valid_for: float | None = None,
        acquire_timeout: float = 60.0,
        connect: Connector | None = None,
        now: clock.Clock = clock.now,
    ) -> None:
        self.valid_for = session_timeout / 2 if valid_for is None else valid_for
        if not 0 < self.valid_for <= session_timeout / 2:
            raise ConfigurationError(
                "valid_for", valid_for, f"must be above 0 and at most half of session_timeout ({session_timeout:g} s)"
            )
        self.group_id = group_id
        self.owner = owner or f"{socket.gethostname()}:{os.getpid()}"
        self._options = MemberOptions(
            group_id=group_id,
            session_timeout=session_timeout,
            rebalance_timeout=session_timeout,
            heartbeat_interval=self.valid_for / _BEATS_IN_VALIDITY,
        )
        self._acquire_timeout = acquire_timeout
        self._owns_cluster = isinstance(cluster, ClientConfig)
        self._cluster = ClusterClient(cluster) if isinstance(cluster, ClientConfig) else cluster
        self._connect = connect
        self._now = now
        self._since = int(time.time() * 1000)
        self._session: MemberSession | None = None
        self.term = 0
        """Counts how often this run asked for the lease anew: with the same term, nobody else held it in between."""

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
        """Wait until the lease is held; joins the group if need be.

        :param timeout: seconds to wait while another holds it; 0 takes it only if it is free. Joining itself does not
            count: that lasts until the group answers, or ``session_timeout`` if a member of it has crashed.

        Raises ``LeaseNotAcquiredError``; call ``aclose`` then, or go on waiting with another call.
        """
        session = self._session or await self._join()
        deadline: float | None = None
        while not self.held:
            if session.membership.synced is not None and session.membership.phase is Phase.STABLE:
                deadline = self._now() + timeout if deadline is None else deadline
                if self._now() >= deadline and not self._is_given(session.membership.synced):
                    held_by = grants.read_grant(session.membership.synced.assignment).owner
                    raise LeaseNotAcquiredError(
                        self.group_id, f"the lease is held by {held_by!r}; it was waited for {timeout:g} s"
                    )
            await session.wait_change(None if deadline is None else max(deadline - self._now(), 0.01))

    async def aclose(self) -> None:
        """Give the lease back: from now on it is not held, and another may have it at once. May be called twice."""
        session, self._session = self._session, None
        if session is not None:
            await session.aclose()
        if self._owns_cluster:
            await self._cluster.aclose()

    async def _join(self) -> MemberSession:
        if self._owns_cluster:
            await self._cluster.refresh()
        member = _LeaseMember(self)
        session = MemberSession(self._cluster, member, self._options, connect=self._connect, now=self._now)
        self._session = await session.__aenter__()
        return session

    # What is known of the lease; safe to read from any thread

    @property
    def remaining(self) -> float:
        """Give the seconds for which the lease is still certain; 0 when it is not held."""
        session = self._session
        synced = None if session is None else session.membership.synced
        if synced is None or not self._is_given(synced):
            return 0.0
        return max(synced.confirmed_at + self.valid_for - self._now(), 0.0)

    @property
    def held(self) -> bool:
        """Say whether this run certainly holds the lease at this moment."""
        return self.remaining > 0

    def check(self, at_least: float = 0.0) -> None:
        """Do nothing while the lease is certainly held. Call it before every step that must not happen twice.

        :param at_least: seconds for which it has to be certain still, e.g. how long the step takes.

        Raises ``LeaseLostError``.
        """
        remaining = self.remaining
        if remaining <= at_least:
            raise LeaseLostError(self.group_id, self._why(remaining, at_least))

    async def confirm(self, at_least: float = 0.0) -> None:
        """Wait until the lease is certain, for a session timeout at most: a round of the group may take its moment.

        :param at_least: as for ``check``.

        Raises ``LeaseLostError``; at once when the lease is another's by now, or the membership has come to its end.
        """
        deadline = self._now() + self._options.session_timeout
        while (remaining := self.remaining) <= at_least:
            session = self._session
            synced = None if session is None else session.membership.synced
            if session is None or synced is None or not self._is_given(synced) or self._now() >= deadline:
                raise LeaseLostError(self.group_id, self._why(remaining, at_least))
            try:
                await session.wait_change(max(deadline - self._now(), 0.01))
            except KafkaGroupsError as error:
                raise LeaseLostError(self.group_id, self._why(0.0, at_least)) from error

    @property
    def generation(self) -> int:
        """Give the generation of the group that gave this run the lease, -1 if none did. For the audit."""
        synced = None if self._session is None else self._session.membership.synced
        return synced.generation if synced is not None and self._is_given(synced) else -1

    @property
    def member_id(self) -> str:
        """Give this run's id in the group, "" while it has none. For the audit."""
        return "" if self._session is None else self._session.membership.member_id

    @staticmethod
    def _is_given(synced: Synced) -> bool:
        return grants.read_grant(synced.assignment).holder == synced.member_id

    def _why(self, remaining: float, at_least: float) -> str:
        if remaining > 0:
            return f"the lease is certain for {remaining:.1f} s more, and {at_least:g} s are needed"
        membership = None if self._session is None else self._session.membership
        if membership is None:
            return "the lease was given back, or never asked for"
        if membership.failure is not None:
            return f"the lease is lost: {membership.failure}"
        if membership.synced is None or not self._is_given(membership.synced):
            return "the lease is lost: the group went on without this run, or gave it to another"
        silent = self._now() - membership.synced.confirmed_at
        return f"the lease is not certain: the coordinator has not confirmed it for {silent:.1f} s"

    def bid(self) -> Bid:
        """Say what this run tells the leader: since when it waits, and the generation by which it holds, if it does."""
        generation = self.generation if self.held else None
        if generation is None:
            self.term += 1  # from here on another may have it before this run does
        return Bid(owner=self.owner, since=self._since, holds=generation)


class _LeaseMember(GroupMember):
    """Be a run that wants the lease. All that counts is in ``Membership.synced``: nothing is kept here."""

    def __init__(self, lease: MaintenanceLease) -> None:
        self._lease = lease

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    async def metadata(self) -> Sequence[GroupProtocol]:
        return [GroupProtocol(PROTOCOL, grants.write_bid(self._lease.bid()))]

    async def perform_assignment(
        self, leader_id: str, protocol: str, all_member_metadata: Sequence[JoinedMember]
    ) -> Mapping[str, bytes]:
        return grants.assign(leader_id, all_member_metadata)

    async def on_join_complete(self, generation: int, member_id: str, protocol: str, assignment: bytes) -> None:
        grant = grants.read_grant(assignment)
        log.info("lease %s: held by %s in generation %d", self._lease.group_id, grant.owner, generation)

    async def on_join_prepare(self, generation: int, member_id: str) -> None:
        return None

    async def on_leave_prepare(self) -> None:
        return None
