"""Histories of the lease: real members and their lease, brokers of a model, one clock, and what goes wrong."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import Any, cast

from airflow_kafka_groups.kafka.membership import ClientConfig, GroupProtocol, MaintenanceLease, actions
from airflow_kafka_groups.kafka.membership import lease as lease_assignor
from airflow_kafka_groups.kafka.membership.lease import PROTOCOL, PROTOCOL_TYPE
from airflow_kafka_groups.kafka.membership.state import Membership
from airflow_kafka_groups.kafka.protocol.answers import JoinAnswer, SyncAnswer
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from tests.exhaustive.kafka.membership.lease_coordinator import SESSION, Broker, Group, Reply

STEP = 0.1
STALE = 0.5
"""Seconds for which a broker that goes on does not know yet that it was replaced."""
_JOINS = {actions.Phase.UNJOINED, actions.Phase.JOINING, actions.Phase.ASSIGNING, actions.Phase.SYNCING}
NOWHERE = ClientConfig(bootstrap_servers=(("b", 1),))


class Candidate:
    """A run that wants the lease, waits for it for as long as it takes, and leaves sometimes."""

    def __init__(self, history: History, name: str) -> None:
        self.history = history
        self.name = name
        self.suspended = False
        self.begin()

    def begin(self) -> None:
        """Ask for the lease as a new run."""
        history = self.history
        self.lease = MaintenanceLease(
            NOWHERE, group_id="g", owner=self.name, session_timeout=SESSION, now=lambda: history.now
        )
        self.lease._since = int(history.now * 1000)
        self.state = Membership(self.lease._options, PROTOCOL_TYPE)
        self.lease._session = cast("Any", SimpleNamespace(membership=self.state))
        self._broker = history.coordinator
        self._inbox: list[tuple[object, Callable[[], None]]] = []
        self._asked: tuple[object, float] | None = None
        self._beat: tuple[object, float, actions.Heartbeat] | None = None
        self.gone = False

    def leave(self) -> None:
        """Leave the group. A new run begins a little later."""
        member_id, self.gone = self.state.member_id, True
        self.state.leave()
        self._send("leave", member_id, lambda code, answer: None)
        self.history.after(self.history.random.uniform(0, 5), self.begin)

    def step(self) -> None:
        if self.gone:
            return
        inbox, self._inbox = self._inbox, []
        for key, take in inbox:
            if self._asked is not None and key is self._asked[0]:
                self._asked = None
                take()
            elif self._beat is not None and key is self._beat[0]:
                self._beat = None
                take()
        now = self.history.now
        if self._asked is not None and now >= self._asked[1]:
            self._asked = None
            self.state.on_lost(now)
        if self._beat is not None and now >= self._beat[1]:
            beat, self._beat = self._beat[2], None
            self.state.on_heartbeat_lost(beat, now)
        while self._asked is None and self._act(self.state.next_action(now), now):
            pass
        due = self.state.heartbeat_at()
        if self._beat is None and due is not None and due <= now:
            self._heartbeat(now)

    def _act(self, action: actions.Action, now: float) -> bool:
        state = self.state
        match action:
            case actions.Prepare():
                state.on_prepared()
            case actions.Find():
                self._find()
            case actions.Join():
                bid = lease_assignor.write_bid(self.lease.bid())
                join = state.join([GroupProtocol(PROTOCOL, bid)])
                self._ask("join", (join.member_id, bid), lambda code, answer: self._joined(code, answer))
            case actions.Assign(leader_id, _, members):
                state.on_assigned(lease_assignor.assign(leader_id, members))
            case actions.Sync():
                sync = state.sync()
                given = (sync.generation, sync.member_id, sync.assignments)
                self._ask("sync", given, lambda code, answer: self._synced(code, answer, now))
            case actions.Complete():
                state.on_completed()
            case _:
                return False
        return True

    def _joined(self, code: ErrorCode, answer: JoinAnswer | None) -> None:
        self.state.on_joined(replace(answer or JoinAnswer(error=code), error=code), self.history.now)

    def _synced(self, code: ErrorCode, answer: SyncAnswer | None, sent_at: float) -> None:
        self.state.on_synced(answer or SyncAnswer(code), sent_at, self.history.now)

    def _heartbeat(self, now: float) -> None:
        beat = self.state.next_heartbeat(now)
        if not self.state.coordinator_known:
            self._find()
        key = self._send("heartbeat", (beat.generation, beat.member_id), lambda code, _: self._beaten(beat, code))
        self._beat = (key, now + SESSION / 3, beat)

    def _beaten(self, beat: actions.Heartbeat, code: ErrorCode) -> None:
        self.state.on_heartbeat(beat, code, self.history.now)

    def _find(self) -> None:
        self._broker = self.history.coordinator
        self.state.on_found(ErrorCode.none, self.history.now)

    def _ask(self, request: str, given: Any, take: Reply) -> None:
        self._asked = (self._send(request, given, take), self.history.now + SESSION + 5)

    def _send(self, request: str, given: Any, take: Reply) -> object:
        key, history, broker = object(), self.history, self._broker

        def reply(code: ErrorCode, answer: Any) -> None:
            history.after(history.delay(), lambda: self._inbox.append((key, lambda: take(code, answer))))

        history.after(history.delay(), lambda: broker.inbox.append((request, given, reply)))
        return key


class History:
    """What happens to three candidates and two brokers, made of a seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.ids = count(1)
        self.log = Group()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._slow = self.random.choice((0.0, 0.0, 0.5, 3.0))
        self.brokers = [Broker(self), Broker(self)]
        self.coordinator = self.brokers[0]
        self.coordinator.group = Group()
        self.candidates = [Candidate(self, name) for name in "abc"]
        self.grants = 0

    def delay(self) -> float:
        """Return how long a message takes: most are quick."""
        return 0.05 + (self.random.uniform(0, self._slow) if self.random.random() < 0.3 else 0.0)

    def after(self, seconds: float, event: Callable[[], None]) -> None:
        """Let something happen later."""
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), event))

    def holders(self, until: float) -> list[str]:
        """Let time pass, and return who held the lease at once; nobody if no two ever did."""
        fault_at, before = self.random.uniform(4, 12), ""
        while self.now < until:
            while self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
            everybody: list[Broker | Candidate] = [*self.brokers, *self.candidates]
            for one in self.random.sample(everybody, len(everybody)):
                if not one.suspended:
                    one.step()
            held = [one.name for one in self.candidates if one.lease.held]
            if len(held) > 1:
                return held
            self.grants += bool(held) and held[0] != before
            before = held[0] if held else before
            if self.now >= fault_at:
                self._fault()
                fault_at = self.now + self.random.uniform(1, 20)
            self.now += STEP
        return []

    def _fault(self) -> None:
        one = self.random.choice(self.candidates)
        seconds = SESSION * self.random.choice((0.5, 0.95, 1.3, 1.7)) + self.random.uniform(-0.5, 0.5)
        what = self.random.choice(("leave", "holder", "broker", "both", "both", "elect"))
        if what == "leave" and not (one.suspended or one.gone):
            one.leave()
        if what in ("holder", "both"):
            for holder in (candidate for candidate in self.candidates if candidate.lease.held):
                self._suspend(holder, seconds)
        if what in ("broker", "both"):
            self._suspend(self.coordinator, seconds)
            self.after(self.random.choice((0.0, 0.3)) * SESSION, self._elect)
        if what == "elect":
            self._elect()

    def _suspend(self, one: Broker | Candidate, seconds: float) -> None:
        if not one.suspended:
            one.suspended = True
            self.after(seconds, lambda: self._resume(one))

    def _resume(self, one: Broker | Candidate) -> None:
        one.suspended = False
        if isinstance(one, Broker):
            one.blind_until = self.now + self.random.choice((0.0, STALE))
            self.after(STALE, lambda: self._learn(one))

    def _learn(self, broker: Broker) -> None:
        if broker is not self.coordinator and not broker.suspended:
            broker.group = None

    def _elect(self) -> None:
        """Make the other broker the coordinator, if it is there."""
        before = self.coordinator
        (other,) = (broker for broker in self.brokers if broker is not before)
        if not other.suspended and other.group is None:
            other.group = self.log.written()
            for member in other.group.members.values():
                member.until = self.now + SESSION
            self.coordinator = other
            self._learn(before)


class JoiningHistory(History):
    """A history in which candidates are suspended while they join, too, with their coordinator or without it."""

    def _fault(self) -> None:
        if self.random.random() >= 0.5:
            super()._fault()
            return
        seconds = SESSION * self.random.choice((0.5, 0.95, 1.0, 1.3, 1.7, 2.2)) + self.random.uniform(-0.5, 0.5)
        joining = [one for one in self.candidates if not one.gone and one.state.phase in _JOINS]
        for one in joining or [one for one in self.candidates if one.lease.held]:
            self._suspend(one, seconds + self.random.uniform(-0.3, 0.3))
        if self.random.random() < 0.8:
            self._suspend(self.coordinator, seconds)
            self.after(self.random.choice((0.0, 0.1, 0.3)) * SESSION, self._elect)
