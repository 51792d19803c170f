"""The lease's group in a model: two brokers that coordinate it in turn.

A broker that is suspended has a successor, which begins with what was written last, and counts from then on. When the
first one goes on, it answers for a moment by what it remembers; only what needs a write fails. The sessions that have
ended meanwhile may be removed before that or after it, as in a broker, where another thread removes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.kafka.membership import JoinedMember
from airflow_kafka_groups.kafka.membership.lease import PROTOCOL
from airflow_kafka_groups.kafka.protocol.answers import JoinAnswer, SyncAnswer
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from tests.exhaustive.kafka.membership.lease_histories import History

SESSION = 12.0
Reply = Callable[[ErrorCode, Any], None]


@dataclass
class Member:
    """A member as a coordinator knows it; ``waiting`` is its JoinGroup or SyncGroup that is not answered yet."""

    metadata: bytes
    until: float
    assignment: bytes = b""
    waiting: Reply | None = None

    def answer(self, code: ErrorCode, answer: Any = None) -> None:
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            waiting(code, answer)


@dataclass
class Group:
    """What a coordinator remembers of the group."""

    generation: int = 0
    leader: str = ""
    members: dict[str, Member] = field(default_factory=dict)
    given: set[str] = field(default_factory=set)
    phase: str = "stable"
    until: float = 0.0

    def written(self) -> Group:
        members = {key: replace(member, waiting=None) for key, member in self.members.items()}
        return replace(self, members=members, given=set(), phase="stable")


class Broker:
    """A broker; ``group`` is ``None`` while it does not believe to be the coordinator."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.group: Group | None = None
        self.suspended = False
        self.blind_until = 0.0
        self.inbox: list[tuple[str, Any, Reply]] = []

    def step(self) -> None:
        inbox, self.inbox = self.inbox, []
        for request, given, reply in inbox:
            if self.group is None:
                reply(ErrorCode.not_coordinator, None)
            else:
                getattr(self, f"_{request}")(self.group, given, reply)
        if self.group is not None and self.history.now >= self.blind_until:
            self._expire(self.group)

    def _heartbeat(self, group: Group, given: tuple[int, str], reply: Reply) -> None:
        code = self._known(group, *given)
        if code is ErrorCode.none and group.phase == "joining":
            code = ErrorCode.rebalance_in_progress
        reply(code, None)

    def _leave(self, group: Group, member_id: str, reply: Reply) -> None:
        if member_id in group.members:
            self._remove(group, member_id)

    def _join(self, group: Group, given: tuple[str, bytes], reply: Reply) -> None:
        member_id, metadata = given
        if not member_id:
            group.given.add(member_id := f"m{next(self.history.ids)}")
            reply(ErrorCode.member_id_required, JoinAnswer(error=ErrorCode.none, member_id=member_id))
            return
        member = group.members.get(member_id)
        if member is None and member_id not in group.given:
            reply(ErrorCode.unknown_member_id, None)
            return
        group.given.discard(member_id)
        if member is not None and member.metadata == metadata and self._same_round(group, member_id):
            self._touch(member)
            reply(ErrorCode.none, self._joined(group, member_id))
            return
        member = group.members.setdefault(member_id, Member(metadata, 0.0))
        member.metadata, member.waiting = metadata, reply
        self._touch(member)
        self._begin(group, but=member)
        self._complete(group)

    def _same_round(self, group: Group, member_id: str) -> bool:
        return group.phase == "syncing" or (group.phase == "stable" and member_id != group.leader)

    def _sync(self, group: Group, given: tuple[int, str, Mapping[str, bytes]], reply: Reply) -> None:
        generation, member_id, assignments = given
        code = self._known(group, generation, member_id)
        if code is ErrorCode.none and group.phase == "joining":
            code = ErrorCode.rebalance_in_progress
        if code is not ErrorCode.none or group.phase == "stable":
            reply(code, SyncAnswer(code, group.members[member_id].assignment if code is ErrorCode.none else b""))
            return
        group.members[member_id].waiting = reply
        if member_id == group.leader:
            for key, member in group.members.items():
                member.assignment = assignments[key]
            if self._write(group):
                group.phase = "stable"
                for member in group.members.values():
                    member.answer(ErrorCode.none, SyncAnswer(ErrorCode.none, member.assignment))

    def _known(self, group: Group, generation: int, member_id: str) -> ErrorCode:
        if member_id not in group.members:
            return ErrorCode.unknown_member_id
        if generation != group.generation:
            return ErrorCode.illegal_generation
        self._touch(group.members[member_id])
        return ErrorCode.none

    def _touch(self, member: Member) -> None:
        member.until = self.history.now + SESSION

    def _begin(self, group: Group, but: Member | None = None) -> None:
        if group.phase != "joining":
            group.phase, group.until = "joining", self.history.now + SESSION
            for member in group.members.values():
                if member is not but:
                    member.answer(ErrorCode.rebalance_in_progress)

    def _complete(self, group: Group, late: bool = False) -> None:
        """End the round if all members have joined, or if those that have not are too late."""
        if group.phase != "joining" or not (late or all(member.waiting for member in group.members.values())):
            return
        group.members = {key: member for key, member in group.members.items() if member.waiting}
        group.generation += 1
        if group.leader not in group.members:
            group.leader = next(iter(group.members), "")
        group.phase, group.until = "syncing" if group.members else "stable", self.history.now + SESSION
        for member_id, member in group.members.items():
            self._touch(member)
            member.answer(ErrorCode.none, self._joined(group, member_id))
        if not group.members:
            self._write(group)

    def _joined(self, group: Group, member_id: str) -> JoinAnswer:
        members = tuple(JoinedMember(key, None, member.metadata) for key, member in group.members.items())
        return JoinAnswer(
            error=ErrorCode.none,
            generation=group.generation,
            protocol=PROTOCOL,
            leader=group.leader,
            member_id=member_id,
            members=members if member_id == group.leader else (),
        )

    def _remove(self, group: Group, member_id: str) -> None:
        group.members.pop(member_id).answer(ErrorCode.unknown_member_id)
        self._begin(group)
        self._complete(group)

    def _expire(self, group: Group) -> None:
        for member_id, member in list(group.members.items()):
            if member.until <= self.history.now and member.waiting is None and member_id in group.members:
                self._remove(group, member_id)
        if group.phase == "joining" and group.until <= self.history.now:
            self._complete(group, late=True)
        elif group.phase == "syncing" and group.until <= self.history.now:
            for member_id in [key for key, member in group.members.items() if member.waiting is None]:
                self._remove(group, member_id)

    def _write(self, group: Group) -> bool:
        if self.history.coordinator is self:
            self.history.log = group.written()
            return True
        for member in group.members.values():
            member.answer(ErrorCode.not_coordinator)
        self.group = None
        return False
