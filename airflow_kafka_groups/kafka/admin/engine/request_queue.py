"""The keys of a call that wait to be sent, and the requests that may be sent now, within the call's limits.

One request for many keys becomes many requests for one key (KIP-347, KIP-699) here and nowhere else: a handler refuses
to build many keys at an old version, and from then on this scope gets one key a request, in short series. One broker
says nothing about the others: "one old broker un-batches the world" is Java's bug KAFKA-13029.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import count
from math import ceil
from typing import Any, Generic, NamedTuple

from airflow_kafka_groups.kafka.admin.engine.handler import AdminHandler, K, V
from airflow_kafka_groups.kafka.models import Broker, BrokerId

ANY_BROKER: BrokerId = -1


class Stage(IntEnum):
    """A stage of a key: finding its broker, then asking that broker."""

    LOOKUP = 0
    FULFILLMENT = 1


class Scope(NamedTuple):
    """What may share a request, as in Kafka's own AdminApiDriver: a stage, and a broker or ``ANY_BROKER``."""

    stage: Stage
    broker_id: BrokerId


LOOKUPS = Scope(Stage.LOOKUP, ANY_BROKER)
"""Where keys wait to be looked up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverLimits:
    """The limits of one call.

    :param batches_in_flight: requests of many keys under way in one scope.
    :param singles_in_flight: requests under way in a scope whose broker takes one key a request.
    :param in_flight_on_each: requests under way on each of several connections to a broker.
    :param series: the most requests of one key each that are sent together.
    :param first_pause: seconds after the first failure of a key; each further failure doubles them.
    :param longest_pause: the most seconds.
    """

    batches_in_flight: int = 3
    singles_in_flight: int = 256
    in_flight_on_each: int = 16
    series: int = 8
    first_pause: float = 0.05
    longest_pause: float = 1.0


@dataclass(slots=True, eq=False)
class RequestSpec(Generic[K]):
    """What to send together: its scope, its keys, and the handler that builds and parses it.

    :param singly: one request for each key, all over one connection, instead of one request for all of them.
    """

    scope: Scope
    keys: tuple[K, ...]
    handler: AdminHandler[K, Any] = field(repr=False)
    singly: bool = False

    @property
    def requests(self) -> int:
        """The number of requests."""
        return len(self.keys) if self.singly else 1

    def values(self, completed: Mapping[K, V]) -> Iterable[V] | None:
        """Return the values of the keys in their order, or ``None`` when there are not exactly these."""
        if tuple(completed) == self.keys:  # no look at each of them
            return completed.values()
        return map(completed.__getitem__, self.keys) if completed.keys() == set(self.keys) else None


@dataclass(slots=True, eq=False)
class _Lane(Generic[K]):
    scope: Scope
    keys: deque[K] = field(default_factory=deque)
    requests: deque[tuple[K, ...]] = field(default_factory=deque)
    in_flight: int = 0
    singles: bool = False


class RequestQueue(Generic[K]):
    """The requests of one call that are to be sent, or under way. The parameters are those of ``AdminDriver``."""

    def __init__(
        self,
        brokers: Sequence[BrokerId],
        lookup: AdminHandler[K, Broker] | None,
        handler: AdminHandler[K, Any] | None,
        limits: DriverLimits,
        throttled: Mapping[BrokerId, float],
    ) -> None:
        self._lookup, self._handler, self._limits, self._throttled = lookup, handler, limits, throttled
        self._lanes: dict[Scope, _Lane[K]] = {LOOKUPS: _Lane(LOOKUPS)}
        # Shuffled, so that many clients do not all ask the same broker first.
        self._lookup_lanes = [
            self._lane(Scope(Stage.LOOKUP, broker_id)) for broker_id in random.sample(brokers, len(brokers))
        ]
        self._paused: list[tuple[float, int, Scope, tuple[K, ...]]] = []
        self._order = count()
        self.in_flight: set[RequestSpec[K]] = set()

    def wake_times(self, now: float) -> Iterator[float]:
        """Yield the times at which there may be something new to send, if nothing happens before."""
        if self._paused:
            yield self._paused[0][0]
        yield from (until for until in self._throttled.values() if until > now)

    def add(self, scope: Scope, keys: Iterable[K]) -> None:
        """Add keys to the queue of a scope."""
        self._lane(scope).keys.extend(keys)

    def halve(self, spec: RequestSpec[K], keys: tuple[K, ...]) -> bool:
        """Ask again, in two requests, about keys that failed together; return whether there are several."""
        middle = len(keys) // 2
        if not middle or spec.singly:
            return False
        # Before what waits: few are left over at any time.
        self._lanes[spec.scope].requests.extendleft((keys[middle:], keys[:middle]))
        return True

    def schedule_retry(self, at: float, scope: Scope, keys: tuple[K, ...]) -> None:
        """Add keys to the queue of a scope at a later time."""
        heapq.heappush(self._paused, (at, next(self._order), scope, keys))

    def look_up(self, broker_id: BrokerId) -> None:
        """Move keys that wait for a broker back to lookup."""
        lane = self._lane(Scope(Stage.FULFILLMENT, broker_id))
        self._lanes[LOOKUPS].keys.extend(lane.keys)
        lane.keys.clear()

    def send_singly(self, scope: Scope) -> None:
        """Send one key a request in this scope from now on."""
        self._lane(scope).singles = True

    def take(self, now: float, at_once: int | None) -> list[RequestSpec[K]]:
        """Return the requests that may be sent now; stop when they have ``at_once`` keys, ``None`` for all of them."""
        while self._paused and self._paused[0][0] <= now:
            _, _, scope, keys = heapq.heappop(self._paused)
            self.add(scope, keys)
        specs: list[RequestSpec[K]] = []
        taken = 0
        for spec in self._ready(now):
            specs.append(spec)
            taken += len(spec.keys)
            if at_once is not None and taken >= at_once:
                break
        return specs

    def complete(self, spec: RequestSpec[K]) -> None:
        """Record that a request is not under way any more."""
        self.in_flight.discard(spec)
        self._lanes[spec.scope].in_flight -= spec.requests

    def part(self, spec: RequestSpec[K], keys: Collection[K]) -> RequestSpec[K]:
        """Make some requests of a series under way their own one; it keeps the rest, which must not be empty."""
        spec.keys = tuple([key for key in spec.keys if key not in keys])
        parted = RequestSpec(spec.scope, tuple(keys), spec.handler, singly=True)
        self.in_flight.add(parted)
        return parted

    def _lane(self, scope: Scope) -> _Lane[K]:
        lane = self._lanes.get(scope)
        if lane is None:
            lane = self._lanes[scope] = _Lane(scope)
        return lane

    def _ready(self, now: float) -> Iterator[RequestSpec[K]]:
        for lane in self._lanes.values():
            handler = self._lookup if lane.scope.stage is Stage.LOOKUP else self._handler
            while handler is not None and lane.requests and self._has_room(lane, now):
                yield self._begin(lane, RequestSpec(lane.scope, lane.requests.popleft(), handler))
        if self._lookup is not None:
            lookups = self._lanes[LOOKUPS].keys
            share = ceil(len(lookups) / max(len(self._lookup_lanes), 1))
            while lookups and (chosen := self._lookup_lane(now)) is not None:
                yield self._launch(chosen, lookups, self._lookup, share)
        if self._handler is not None:
            lanes = [lane for lane in self._lanes.values() if lane.scope.stage is Stage.FULFILLMENT]
            for lane in sorted(lanes, key=lambda lane: lane.in_flight):
                while lane.keys and self._has_room(lane, now):
                    yield self._launch(lane, lane.keys, self._handler)

    def _launch(
        self, lane: _Lane[K], queue: deque[K], handler: AdminHandler[K, Any], most: int | None = None
    ) -> RequestSpec[K]:
        singly = lane.singles or handler.batch_size == 1
        cut = self._cut_series(lane, queue, handler, most) if singly else self._cut(queue, handler)
        return self._begin(lane, RequestSpec(lane.scope, cut, handler, singly))

    def _begin(self, lane: _Lane[K], spec: RequestSpec[K]) -> RequestSpec[K]:
        self.in_flight.add(spec)
        lane.in_flight += spec.requests
        return spec

    def _cut_series(
        self, lane: _Lane[K], queue: deque[K], handler: AdminHandler[K, Any], most: int | None
    ) -> tuple[K, ...]:
        """Take the keys of requests that are sent together: neighbours that go over the same connection."""
        size = min(self._limits.series, self._room(lane) - lane.in_flight, len(queue), most or len(queue))
        turn_of = handler.turns.get
        keys = [queue.popleft()]
        turn = turn_of(keys[0], 0)
        while len(keys) < size and turn_of(queue[0], 0) == turn:
            keys.append(queue.popleft())
        return tuple(keys)

    def _cut(self, queue: deque[K], handler: AdminHandler[K, Any]) -> tuple[K, ...]:
        size = ceil(len(queue) / ceil(len(queue) / handler.batch_size))  # even, rather than a small one at the end
        popleft = queue.popleft
        keys = tuple([popleft() for _ in range(size)])
        fitting = handler.fit(keys)
        queue.extendleft(reversed(keys[fitting:]))
        return keys[:fitting]

    def _room(self, lane: _Lane[K]) -> int:
        if lane.scope.stage is Stage.FULFILLMENT and self._handler is not None and self._handler.connections > 1:
            return self._limits.in_flight_on_each * self._handler.connections
        return self._limits.singles_in_flight if lane.singles else self._limits.batches_in_flight

    def _has_room(self, lane: _Lane[K], now: float) -> bool:
        return lane.in_flight < self._room(lane) and self._throttled.get(lane.scope.broker_id, now) <= now

    def _lookup_lane(self, now: float) -> _Lane[K] | None:
        """Choose the least busy broker that takes lookups in batches, or else the least busy that takes them singly."""
        free = [lane for lane in self._lookup_lanes if self._has_room(lane, now)]
        return min(free, key=lambda lane: (lane.singles, lane.in_flight), default=None)
