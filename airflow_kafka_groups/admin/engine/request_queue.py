"""What is still to be sent in one batched call: keys that wait, by broker, and the requests that there is room for now.

Keys wait in a broker's queue, in the lookup queue (no broker yet), or aside until a pause is over. Queues are cut into
even requests of at most ``batch_size`` keys, ``batches_in_flight`` at a time for each broker, the least busy first. A
broker that takes one key a request gets them one by one (fallback.py), and one that asked for it is left alone.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice
from math import ceil
from typing import Any, Generic

from airflow_kafka_groups.admin.engine.fallback import Fallback
from airflow_kafka_groups.admin.engine.handler import AdminHandler
from airflow_kafka_groups.admin.engine.handler_result import K
from airflow_kafka_groups.admin.engine.limits import DriverLimits, KeyWeights, RequestSpec
from airflow_kafka_groups.models import Broker, BrokerId


class RequestQueue(Generic[K]):
    """Hold the keys of a call that are to be asked about.

    :param brokers: node ids that may be asked for lookups.
    :param lookup: finds the broker of a key; ``None`` when no key is ever looked up.
    :param handler: asks the question; ``None`` when the lookup is all.
    :param limits: how large requests are, and how many there may be.
    :param weights: how much a key makes the broker write; ``None`` when it does not matter.
    """

    def __init__(
        self,
        brokers: Sequence[BrokerId],
        lookup: AdminHandler[K, Broker] | None,
        handler: AdminHandler[K, Any] | None,
        limits: DriverLimits,
        weights: KeyWeights[K] | None,
    ) -> None:
        self._lookup, self._handler, self._weights = lookup, handler, weights
        # Shuffled, so that many clients do not all ask the same broker first.
        self._brokers = random.sample(brokers, len(brokers))
        self._lookup_queue: deque[K] = deque()
        self._queues: dict[BrokerId, deque[K]] = {}
        self._halves: dict[BrokerId, deque[tuple[K, ...]]] = {}
        self._paused: list[tuple[float, int, BrokerId | None, tuple[K, ...]]] = []
        self._order = count()
        self._in_flight: Counter[tuple[BrokerId, bool]] = Counter()
        self._in_flight_specs: set[RequestSpec[K]] = set()
        self._fallback = Fallback(limits)
        self._silent_until: dict[BrokerId, float] = {}

    @property
    def in_flight_specs(self) -> Iterable[RequestSpec[K]]:
        """Give the requests under way."""
        return self._in_flight_specs

    def wake_times(self, now: float) -> Iterator[float]:
        """Give the times at which there may be something new to send, if nothing happens before."""
        if self._paused:
            yield self._paused[0][0]
        yield from (until for until in self._silent_until.values() if until > now)

    # What waits

    def add(self, broker_id: BrokerId | None, keys: Iterable[K]) -> None:
        """Let keys wait for a broker, or for being looked up (``None``)."""
        if broker_id is None:
            self._lookup_queue.extend(keys)
        else:
            self._queues.setdefault(broker_id, deque()).extend(keys)

    def add_request(self, broker_id: BrokerId, keys: tuple[K, ...]) -> None:
        """Let keys wait for a broker that are to be one request, whatever its size."""
        if keys:
            self._halves.setdefault(broker_id, deque()).append(keys)

    def schedule_retry(self, until: float, broker_id: BrokerId | None, keys: tuple[K, ...]) -> None:
        """Do what ``add`` does, at a later time."""
        heapq.heappush(self._paused, (until, next(self._order), broker_id, keys))

    def look_up(self, broker_id: BrokerId) -> None:
        """Have the keys that wait for a broker looked up instead."""
        self._lookup_queue.extend(self._queues.pop(broker_id, ()))

    def look_up_all(self) -> None:
        """Have all the keys that wait for any broker looked up instead."""
        for broker_id in list(self._queues):
            self.look_up(broker_id)

    def throttle(self, broker_id: BrokerId, until: float) -> None:
        """Send nothing to a broker until then."""
        self._silent_until[broker_id] = until

    def send_one_by_one(self, broker_id: BrokerId, *, is_lookup: bool) -> None:
        """Remember that a broker takes one key a request."""
        self._fallback.revert(broker_id, is_lookup=is_lookup)

    # What is sent

    def take(self, now: float, at_once: int | None) -> list[RequestSpec[K]]:
        """Give the requests that there is room for.

        :param at_once: stop when they have so many keys; ``None`` for all of them.
        """
        while self._paused and self._paused[0][0] <= now:
            _, _, broker_id, keys = heapq.heappop(self._paused)
            self.add(broker_id, keys)
        specs: list[RequestSpec[K]] = []
        taken = 0
        for spec in self._ready(now):
            specs.append(spec)
            taken += len(spec.keys)
            if at_once is not None and taken >= at_once:
                break
        return specs

    def completed_request(self, spec: RequestSpec[K]) -> None:
        """Take the news that a request is under way no more."""
        self._in_flight_specs.discard(spec)
        self._in_flight[spec.broker_id, spec.is_lookup] -= 1

    def _ready(self, now: float) -> Iterator[RequestSpec[K]]:
        if self._lookup is not None:
            while self._lookup_queue and (chosen := self._lookup_broker(now)) is not None:
                yield self._cut(chosen, self._lookup_queue, self._lookup, is_lookup=True)
        if self._handler is not None:
            for broker_id, halves in self._halves.items():
                while halves and self._has_room(broker_id, False, now):
                    yield self._launch(broker_id, halves.popleft(), self._handler, is_lookup=False)
            for broker_id in sorted(self._queues, key=lambda broker_id: self._in_flight[broker_id, False]):
                queue = self._queues[broker_id]
                while queue and self._has_room(broker_id, False, now):
                    yield self._cut(broker_id, queue, self._handler, is_lookup=False)

    def _cut(
        self, broker_id: BrokerId, queue: deque[K], handler: AdminHandler[K, Any], *, is_lookup: bool
    ) -> RequestSpec[K]:
        most = self._fallback.keys_in_request(broker_id, is_lookup=is_lookup)
        size = ceil(len(queue) / ceil(len(queue) / most))  # of equal size, rather than a small one at the end
        if self._weights is not None and not is_lookup:
            size = self._weights.fit(list(islice(queue, size)))
        popleft = queue.popleft
        return self._launch(broker_id, tuple([popleft() for _ in range(size)]), handler, is_lookup=is_lookup)

    def _launch(
        self, broker_id: BrokerId, keys: tuple[K, ...], handler: AdminHandler[K, Any], *, is_lookup: bool
    ) -> RequestSpec[K]:
        spec = RequestSpec(broker_id, keys, handler, is_lookup)
        self._in_flight_specs.add(spec)
        self._in_flight[broker_id, is_lookup] += 1
        return spec

    def _has_room(self, broker_id: BrokerId, is_lookup: bool, now: float) -> bool:
        room = self._fallback.requests_in_flight(broker_id, is_lookup=is_lookup)
        return self._in_flight[broker_id, is_lookup] < room and self._silent_until.get(broker_id, 0.0) <= now

    def _lookup_broker(self, now: float) -> BrokerId | None:
        """Choose the least busy broker that takes lookups in batches, or else the least busy that takes them singly."""
        free = [broker_id for broker_id in self._brokers if self._has_room(broker_id, True, now)]
        best = self._fallback.best_for_lookups(free)
        return min(best, key=lambda broker_id: self._in_flight[broker_id, True], default=None)
