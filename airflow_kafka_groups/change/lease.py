"""The lease in a deletion: one run deletes on a cluster at a time, and one that has lost the lease deletes no more.

It is asked before a chunk is read, after the intent, by a heartbeat right before the request leaves, and while that is
under way. The heartbeat notices a worker whose host paused it: by its own clocks, its reading is young.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from airflow_kafka_groups.checks import check_number
from airflow_kafka_groups.exceptions import BrokerError, ConfigurationError, DeadlineExceededError, LeaseLostError
from airflow_kafka_groups.kafka.models import LEASE_GROUP_ID
from airflow_kafka_groups.ledger.outcomes import LeaseRecord
from airflow_kafka_groups.shown import shortened

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.cluster.config import ClientConfig
    from airflow_kafka_groups.kafka.membership.lease import MaintenanceLease

T = TypeVar("T")

MARGIN_SECONDS = 1.0
"""How long the lease has to be certain still when a delete request leaves."""
RECENT = timedelta(days=7)
"""How long ago a run with another lease still is a warning: longer ago, the lease may have been renamed since."""
JOIN_SECONDS = 60.0
"""How long the group of the lease may take to answer, beside the time for which its holder is waited for."""


class LeaseGuard:
    """The guard that stops a deletion without its lease, and keeps what is to be recorded.

    :param lease: the lease, held already.
    """

    def __init__(self, lease: MaintenanceLease) -> None:
        self._lease = lease
        self._term = lease.term
        self._generations = {lease.generation: None}
        self._member_id = lease.member_id
        self.lost: str | None = None

    @property
    def generation(self) -> int:
        """The generation of the lease's group by which this run holds it."""
        return self._lease.generation

    @property
    def send_within(self) -> float:
        """The seconds from now within which a request may leave, if the lease is not confirmed again until then."""
        return max(self._lease.remaining - MARGIN_SECONDS, 0.0)

    def require_cluster(self, kafka_cluster_id: str | None) -> None:
        """Raise ``ConfigurationError`` for the lease of another cluster, as far as both ids are known.

        It has a client of its own: bootstrap servers of two clusters, or a name that moves, may lead it elsewhere.
        """
        of_lease = self._lease.kafka_cluster_id
        if of_lease is not None and kafka_cluster_id is not None and of_lease != kafka_cluster_id:
            raise ConfigurationError(
                "lease",
                self._lease.group_id,
                f"it is held on cluster {of_lease!r}, and the groups are on cluster {kafka_cluster_id!r}: let the "
                "bootstrap servers lead to one cluster; nothing was deleted",
            )

    async def why_lost(self) -> str | None:
        """Return why nothing may be deleted any more, ``None`` while the lease is held."""
        if self.lost is None:
            with suppress(LeaseLostError), self._noted():
                await self._lease.confirm(MARGIN_SECONDS)
                self._require(MARGIN_SECONDS)
        return self.lost

    async def prove(self, within: float) -> None:
        """Wait for the coordinator's answer to a heartbeat that is sent now: a paused worker's clocks say nothing.

        Note the generation under which the next request is sent.

        :param within: seconds to wait for it.

        Raises ``LeaseLostError`` if the request must not be sent, and ``NotSentError`` if there is no answer in time.
        """
        with self._noted():
            await self._lease.prove(within)
            self._require(MARGIN_SECONDS)
        self._generations[self._lease.generation] = None

    async def run_while_held(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run the work, and cancel it as soon as the lease ends.

        Raises ``LeaseLostError``: the work may or may not be done then.
        """
        task = asyncio.ensure_future(work())
        try:
            with self._noted():
                while not task.done():
                    self._require(0.0)
                    await asyncio.wait({task}, timeout=max(self._lease.remaining, 0.01))
            return task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def record(self) -> LeaseRecord:
        """Return the record, also after the lease was released."""
        return LeaseRecord(
            group_id=self._lease.group_id,
            owner=self._lease.owner,
            member_id=self._member_id,
            generations=tuple(self._generations),
            lost=self.lost,
        )

    def _require(self, at_least: float) -> None:
        self._lease.check(at_least)
        if self._lease.term != self._term:
            raise LeaseLostError(self._lease.group_id, "the lease was lost and came back: another may have had it")

    @contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except LeaseLostError as error:
            self.lost = error.reason
            raise


def other_leases(group_ids: Iterable[str], lease_group_id: str | None) -> tuple[str, ...]:
    """Return a warning if other runs on this cluster use another lease: their deletions and this one's may overlap.

    :param group_ids: groups of the cluster, and the leases of recent runs: a lease's group disappears after its run.
    :param lease_group_id: this run's lease; ``None`` to compare nothing.
    """
    others = sorted(id_ for id_ in group_ids if id_.endswith(LEASE_GROUP_ID) and id_ != lease_group_id)
    if lease_group_id is None or not others:
        return ()
    return (
        f"other leases are used on this cluster ({', '.join(map(repr, map(shortened, others[:3])))}; this run's is "
        f"{lease_group_id!r}): two leases do not exclude each other. Set the same lease_group_prefix everywhere",
    )


@asynccontextmanager
async def deletion_lease(
    config: ClientConfig, *, group_id: str, owner: str, wait_seconds: float
) -> AsyncIterator[LeaseGuard]:
    """Acquire the lease of a cluster for a deletion, and release it afterwards.

    :param group_id: the group that stands for the lease; all runs that are to exclude each other name the same.
    :param owner: how this run is named to the others.
    :param wait_seconds: how long a lease that another holds is waited for; 0 takes it only if it is free.

    Raises ``LeaseNotAcquiredError`` naming the holder, ``ConfigurationError`` when this user may not join the group,
    and ``DeadlineExceededError`` when the group does not answer.
    """
    # Reports name leases, too, and need no client.
    from airflow_kafka_groups.kafka.membership.lease import MaintenanceLease

    seconds = check_number("lease_wait_seconds", wait_seconds)
    if seconds < 0:
        raise ConfigurationError("lease_wait_seconds", wait_seconds, "give 0 or more seconds")
    lease = MaintenanceLease(config, group_id=group_id, owner=owner)
    try:
        await _acquire(lease, seconds)
        yield LeaseGuard(lease)
    finally:
        await lease.aclose()


async def _acquire(lease: MaintenanceLease, seconds: float) -> None:
    limit = seconds + JOIN_SECONDS
    try:
        async with asyncio.timeout(limit) as deadline:
            await lease.acquire(seconds)
    except BrokerError as error:
        if error.name != "GROUP_AUTHORIZATION_FAILED":
            raise
        raise ConfigurationError(
            "lease",
            lease.group_id,
            "this user may not join the group that stands for the lease, so nothing was deleted. Allow it: "
            f"kafka-acls.sh --add --allow-principal User:… --operation Read --group {lease.group_id}; or name a group "
            "it may read with the connection's lease_group_prefix; or switch the lease off with lease=False, if no "
            f"other run can delete at the same time ({error})",
        ) from error
    except TimeoutError as error:
        if not deadline.expired():
            raise  # LeaseNotAcquiredError is one, too
        why = "" if lease.trouble is None else f" (the last error: {lease.trouble})"
        raise DeadlineExceededError(
            f"group {lease.group_id!r} gave no answer about the lease within {limit:g} s; nothing was deleted{why}"
        ) from error
