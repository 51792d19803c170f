"""One scripted group at a scripted cluster: a coordinator that obeys, and answers otherwise when told to."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_groups.kafka import GroupMember, GroupProtocol, JoinedMember, MemberOptions
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.protocol.api_versions import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from tests.fakes.cluster import FakeCluster
from tests.unit.kafka.membership import replies

OPTIONS = MemberOptions(
    group_id="g", session_timeout=6, rebalance_timeout=6, heartbeat_interval=0.01, retry_backoff=0.001, max_backoff=0.01
)


async def until(is_so: Callable[[], bool]) -> None:
    """Let the others run until something is so; the test's own timeout ends it."""
    while not is_so():  # noqa: ASYNC110  # what is waited for is plain state of a fake
        await asyncio.sleep(0)


@dataclass
class ScriptedGroup:
    """Answer the membership requests of one member; what is in a queue is answered first."""

    cluster: FakeCluster
    joins: deque[ErrorCode] = field(default_factory=deque)
    syncs: deque[ErrorCode] = field(default_factory=deque)
    beats: deque[ErrorCode] = field(default_factory=deque)
    hold_joins: asyncio.Event | None = None
    hold_beats: asyncio.Event | None = None
    others: Mapping[str, bytes] = field(default_factory=dict)
    override: bytes | None = None

    def __post_init__(self) -> None:
        self.generation = 0
        self.ids = 0
        self.left: list[str] = []
        self.beaten = 0
        self.joined_as: list[tuple[str, bytes]] = []
        self.beat = asyncio.Event()
        self.on_leave: list[Any] = []
        self.cluster.control(JOIN_GROUP, self._join)
        self.cluster.control(SYNC_GROUP, self._sync)
        self.cluster.control(HEARTBEAT, self._beat)
        self.cluster.control(LEAVE_GROUP, self._leave)

    @property
    def config(self) -> ClientConfig:
        return ClientConfig.from_librdkafka({"bootstrap.servers": self.cluster.bootstrap})

    async def beats_seen(self, count: int) -> None:
        """Wait for so many more heartbeats."""
        goal = self.beaten + count
        while self.beaten < goal:
            self.beat.clear()
            await self.beat.wait()

    async def _join(self, broker_id: int, version: int, request: Any) -> Any:
        member_id = request.member_id
        self.joined_as.append((member_id, request.protocols[0].metadata))
        if self.hold_joins is not None and member_id:
            await self.hold_joins.wait()
        if self.joins:
            return replies.join(version, member_id, error=self.joins.popleft())
        if not member_id:
            self.ids += 1
            return replies.join(version, f"m{self.ids}", error=ErrorCode.member_id_required)
        self.generation += 1
        members = {member_id: request.protocols[0].metadata, **self.others}
        return replies.join(version, member_id, leader=member_id, generation=self.generation, members=members)

    def _sync(self, broker_id: int, version: int, request: Any) -> Any:
        if self.syncs:
            return replies.sync(version, error=self.syncs.popleft())
        given = {item.member_id: item.assignment for item in request.assignments}
        return replies.sync(version, given[request.member_id] if self.override is None else self.override)

    async def _beat(self, broker_id: int, version: int, request: Any) -> Any:
        if self.hold_beats is not None:
            await self.hold_beats.wait()
        self.beaten += 1
        self.beat.set()
        if self.cluster.coordinator("g") != broker_id:
            return replies.heartbeat(version, ErrorCode.not_coordinator)
        return replies.heartbeat(version, self.beats.popleft() if self.beats else ErrorCode.none)

    def _leave(self, broker_id: int, version: int, request: Any) -> Any:
        self.left.extend(member.member_id for member in request.members)
        for callback in self.on_leave:
            callback()
        return replies.leave(version)


class Recorder(GroupMember):
    """Write down every call."""

    def __init__(self, protocols: Sequence[GroupProtocol] = (GroupProtocol("p1", b"meta"),)) -> None:
        self.protocols = protocols
        self.calls: list[tuple[Any, ...]] = []
        self.extra: dict[str, bytes] = {}
        self.skip: set[str] = set()
        self.completions: deque[Exception | None] = deque()

    @property
    def protocol_type(self) -> str:
        return "toy"

    def metadata(self) -> Sequence[GroupProtocol]:
        return self.protocols

    async def on_join_prepare(self, generation: int, member_id: str) -> None:
        self.calls.append(("prepare", generation, member_id))

    def perform_assignment(
        self, leader_id: str, protocol: str, all_member_metadata: Sequence[JoinedMember]
    ) -> Mapping[str, bytes]:
        self.calls.append(("assign", leader_id, protocol))
        made = {member.member_id: b"for " + member.member_id.encode() for member in all_member_metadata}
        return {key: data for key, data in made.items() if key not in self.skip} | self.extra

    async def on_join_complete(self, generation: int, member_id: str, protocol: str, assignment: bytes) -> None:
        self.calls.append(("complete", generation, member_id, protocol, assignment))
        if self.completions and (error := self.completions.popleft()) is not None:
            raise error

    async def on_leave_prepare(self) -> None:
        self.calls.append(("leave",))
