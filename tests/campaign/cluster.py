"""The cluster as one process of the model reaches it: ``FakeAdmin`` with lost answers, moves of coordinators, and time.

The admin client's own check of group types is left out: what the maintenance layer asks to be deleted is deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from airflow_kafka_groups.change.lease import LeaseGuard
from airflow_kafka_groups.exceptions import (
    KafkaGroupsError,
    LeaseLostError,
    LeaseNotAcquiredError,
    NotSentError,
    OutcomeUnknownError,
)
from airflow_kafka_groups.kafka.admin.results import GroupListings, GroupResult, GroupResults
from airflow_kafka_groups.kafka.membership.lease import MaintenanceLease
from airflow_kafka_groups.kafka.models import (
    GroupDescription,
    GroupListing,
    GroupOffsets,
    GroupType,
    OffsetAndMetadata,
    TopicPartition,
)
from airflow_kafka_groups.observe.fingerprint import fingerprint
from tests.campaign.process import Process
from tests.campaign.steps import Fault
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import broker_error, describe_dead, timeout

if TYPE_CHECKING:
    from tests.campaign.world import World

SESSION_SECONDS = 10.0


@dataclass(slots=True)
class Seen:
    """What a process truly met when it last read a group, whatever it was answered."""

    members_at: float = -1.0
    members: int = 0
    empty: bool = True
    type: GroupType = GroupType.UNKNOWN
    offsets_at: float = -1.0
    fingerprint: str = ""
    first_fingerprint: str | None = None
    epoch: int | None = None
    first_epoch: int | None = None
    commits: Mapping[TopicPartition, OffsetAndMetadata] | None = None

    @property
    def at(self) -> float:
        return min(self.members_at, self.offsets_at)


class ModelAdmin(FakeAdmin):
    """The admin client of one process."""

    def __init__(self, world: World, process: Process) -> None:
        super().__init__(log=(0, 100_000))
        self.groups = world.groups
        self.world = world
        self.process = process
        self.seen: dict[str, Seen] = {}

    async def cluster_id(self) -> str | None:
        await self._begin("cluster")
        return self.cluster

    async def list_groups(self, **filters: Any) -> GroupListings:
        due = await self._begin("list")
        hidden = {group_id for group_id in self.groups if group_id in self.world.hidden}
        listings: list[GroupListing] = [item for item in self._listings() if item.group_id not in hidden]
        missing: dict[int, KafkaGroupsError] = {}
        if "hidden" in due or "silent" in due or "lost" in due:
            missing = {1: timeout()}
            listings = [item for number, item in enumerate(listings) if (due_arg(due) >> number) % 2]
        await self._end(due)
        return GroupListings(listings, missing)

    async def describe_consumer_groups(self, group_ids: Iterable[str], **more: Any) -> GroupResults[GroupDescription]:
        ids = list(group_ids)
        due = await self._begin("describe")
        results: list[GroupResult[GroupDescription]] = []
        for group_id in ids:
            group, seen = self.groups.get(group_id), self.seen.setdefault(group_id, Seen())
            seen.members_at = self.world.clock
            seen.members, seen.empty, seen.type = (
                (group.members, group.state.value == "Empty", group.type) if group else (0, True, GroupType.UNKNOWN)
            )
            seen.epoch = group.epoch if group is not None and group.type is GroupType.CONSUMER else None
            seen.first_epoch = seen.epoch if seen.first_epoch is None else seen.first_epoch
            results.append(self._distorted(due, group_id, self._described(group_id, None), describe_dead(group_id)))
        await self._end(due)
        return self._without_silent(due, results)

    async def stream_consumer_group_offsets(
        self, groups: Any, *, require_stable: bool = False, progress: Any = None
    ) -> AsyncGenerator[GroupResult[GroupOffsets], None]:
        ids = list(groups)
        due = await self._begin("offsets")
        results: list[GroupResult[GroupOffsets]] = []
        for group_id in ids:
            seen, offsets = self.seen.setdefault(group_id, Seen()), self._offsets(group_id, None)
            seen.offsets_at, seen.fingerprint = self.world.clock, fingerprint(offsets)
            seen.first_fingerprint = seen.first_fingerprint or seen.fingerprint
            seen.commits = dict(self.groups[group_id].offsets) if group_id in self.groups else {}
            results.append(self._distorted(due, group_id, offsets, GroupOffsets.from_mapping(group_id, {})))
        await self._end(due)
        for result in self._without_silent(due, results).values():
            yield result

    async def delete_consumer_groups(
        self,
        group_ids: Iterable[str],
        *,
        offsets: Mapping[str, GroupOffsets] | None = None,
        types: Any = (),
        send_within: float | None = None,
        coordinators: Mapping[str, int] | None = None,
        before_sending: Callable[[], Awaitable[None]] | None = None,
    ) -> GroupResults[None]:
        ids, began = list(group_ids), self.process.monotonic()
        due = self.process.at("delete")
        for _ in range(6):  # a lease that ended meanwhile is noticed here, and the request does not leave
            await asyncio.sleep(0)
        self.process.check_interrupted()
        if before_sending is not None:
            await before_sending()
        if not self.process.alive:
            self.process.kill()
        if send_within is not None and self.process.monotonic() - began >= send_within:
            return GroupResults(GroupResult(id_, error=NotSentError("the time for it was over")) for id_ in ids)
        if (fault := due.get("error")) is not None:
            return self._refused(fault, ids)
        results = [self._deleted(group_id, due, began) for group_id in ids]
        self.process.after(due)
        if (fault := due.get("lost")) is not None and fault.arg % 4 == 3:
            raise timeout()
        return self._without_silent(due, results)

    def _deleted(self, group_id: str, due: Mapping[str, Fault], sent_at: float) -> GroupResult[None]:
        try:
            lost = due.get("lost")
            if lost is None or lost.arg % 4 < 2:
                self.world.judge_deletion(self.process, group_id, self.seen.get(group_id), sent_at)
                self._delete(group_id)
                self.world.note_deletion(group_id)
            if lost is not None:
                return GroupResult(group_id, error=OutcomeUnknownError("the answer was lost"))
            return GroupResult(group_id)
        except KafkaGroupsError as error:
            return GroupResult(group_id, error=error)

    def _refused(self, fault: Fault, ids: list[str]) -> GroupResults[None]:
        if fault.arg % 3 == 0:
            raise timeout()
        name = ("UNKNOWN_SERVER_ERROR", "NOT_COORDINATOR", "GROUP_AUTHORIZATION_FAILED")[fault.arg % 3]
        return GroupResults(GroupResult(id_, error=broker_error(name)) for id_ in ids)

    async def alter_consumer_group_offsets(self, offsets: Any, **more: Any) -> GroupResults[None]:
        due = await self._begin("alter")
        results = await super().alter_consumer_group_offsets(offsets, **more)
        for group_id in offsets:
            self.world.changed[group_id] = self.world.clock
            self.world.commits[group_id].append(self.world.clock)
        await self._end(due)
        return results

    def _distorted(self, due: Mapping[str, Fault], group_id: str, answer: Any, dead: Any) -> GroupResult[Any]:
        """Return a group's answer, or what a coordinator says that has moved or is not there."""
        if group_id in self.world.hidden:
            return GroupResult(group_id, error=broker_error("COORDINATOR_NOT_AVAILABLE"))
        if (fault := due.get("move")) is None:
            return GroupResult(group_id, answer)
        if fault.arg % 3 == 0:
            return GroupResult(group_id, error=broker_error("NOT_COORDINATOR"))
        return GroupResult(group_id, dead if fault.arg % 3 == 1 else answer)

    def _without_silent(self, due: Mapping[str, Fault], results: list[GroupResult[Any]]) -> GroupResults[Any]:
        if (fault := due.get("silent")) is not None:
            del results[fault.arg % len(results)]
        return GroupResults(results)

    async def _begin(self, call: str) -> Mapping[str, Fault]:
        due = self.process.at(call)
        self.world.renew(self.process)
        await asyncio.sleep(0)
        self.process.check_interrupted()
        if "error" in due:
            raise timeout()
        return due

    async def _end(self, due: Mapping[str, Fault]) -> None:
        self.process.after(due)
        if "lost" in due:
            raise timeout()


def due_arg(due: Mapping[str, Fault]) -> int:
    """Return the number of the fault that hides groups."""
    return next((due[kind].arg for kind in ("hidden", "silent", "lost") if kind in due), 0)


class ModelLease:
    """The cluster's lease as one process holds it: it ends when its heartbeats stay away for a session's time.

    What a process believes goes by its own clock, which stands still while its host pauses it.
    """

    group_id = "lease"
    member_id = "member"
    kafka_cluster_id = None

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self.owner = f"process {process.number}"
        self.term = 1
        self.generation = world.generation
        self._until = process.monotonic() + SESSION_SECONDS

    @property
    def _is_held(self) -> bool:
        return self._world.holder is self._process and self._world.held_until > self._world.clock

    @property
    def remaining(self) -> float:
        if self._is_held:
            self._until = self._process.monotonic() + self._world.held_until - self._world.clock
        return max(self._until - self._process.monotonic(), 0.0)

    def check(self, at_least: float = 0.0) -> None:
        if self.remaining <= at_least:
            raise LeaseLostError(self.group_id, "its heartbeats stayed away")

    async def confirm(self, at_least: float = 0.0) -> None:
        self._world.renew(self._process)
        self.check(at_least)

    async def prove(self, within: float) -> None:
        if not self._is_held:
            raise LeaseLostError(self.group_id, "the group removed this run")
        self.check()


@asynccontextmanager
async def model_lease(world: World, process: Process) -> AsyncIterator[LeaseGuard]:
    """Take the cluster's lease until the block ends; that of a process which was killed ends after its session."""
    if world.holder is not None and not world.holder.alive:
        world.clock = max(world.clock, world.held_until)
    if world.holder is not None and world.held_until > world.clock:
        raise LeaseNotAcquiredError("lease", "another run deletes")
    world.holder, world.held_until = process, world.clock + SESSION_SECONDS
    world.generation += 1
    try:
        yield LeaseGuard(cast("MaintenanceLease", ModelLease(world, process)))
    finally:
        if world.holder is process and process.alive:
            world.holder = None
