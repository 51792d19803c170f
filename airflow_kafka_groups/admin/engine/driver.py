"""All bookkeeping of one batched call; no socket, no task, no clock.

A key goes through two stages, as in Kafka's own AdminApiDriver: *lookup* (which broker?) and *fulfilment* (ask it).
``poll(now)`` gives the requests to send now; what comes of each is told by ``on_response`` or ``on_failure``; results
leave by ``take_results`` as they are known. ``wake_at`` says when to poll again if nothing happens before.

1. Keys with a known or guessed coordinator start in that broker's queue; the others in the lookup queue.
2. Queues are cut into requests (request_queue.py). A broker whose version takes one key a request
   (``NoBatchedRequestError``) gets them one by one from then on (fallback.py).
3. Every answer sorts its keys by status (handler.py). A key that the broker left out is an error with its name.
4. Unmapped keys are looked up again: the first time at once (a wrong guess costs nothing), later after a pause. When
   most of a first answer is NOT_COORDINATOR, the guesses are wrong for this cluster: the rest are looked up too.
5. Keys of a request that was too much for the broker go again in halves, down to one. ``weights`` keep that rare: a
   request is cut when a bucket (a partition of ``__consumer_offsets``) would get more bytes than its budget.
6. Pauses grow with the failures of that key, and only with failures. At the deadline, what is left fails with the
   broker it waited for and the last reason.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, Generic

from airflow_kafka_groups.admin.engine.handler import AdminHandler
from airflow_kafka_groups.admin.engine.handler_result import HandlerResult, K, Outcome, V
from airflow_kafka_groups.admin.engine.limits import DriverLimits, KeyWeights, RequestSpec
from airflow_kafka_groups.admin.engine.request_queue import RequestQueue
from airflow_kafka_groups.exceptions import (
    AuthenticationFailedError,
    ConnectionFailedError,
    DeadlineExceededError,
    KafkaGroupsError,
    LocalProtocolError,
    MissingAnswerError,
    NoBatchedRequestError,
    OutcomeUnknownError,
    PartitionOffsetsError,
    RequestTimeoutError,
)
from airflow_kafka_groups.models import Broker, BrokerId
from airflow_kafka_groups.protocol.codec import Message


class AdminDriver(Generic[K, V]):
    """Drive one call from its keys to their results.

    :param keys: what is asked about; duplicates are removed, order is kept.
    :param brokers: node ids that may be asked for lookups.
    :param lookup: finds the broker of a key; ``None`` when every key's broker is given and cannot change.
    :param handler: asks the question; ``None`` when the broker itself is the answer (``find_coordinators``).
    :param mapping: brokers already known or guessed, by key.
    :param weights: how much a key makes the broker write; ``None`` when it does not matter.
    :param deadline: the time, on the clock of ``now``, at which what is left fails.
    """

    def __init__(
        self,
        keys: Iterable[K],
        *,
        brokers: Sequence[BrokerId],
        lookup: AdminHandler[K, Broker] | None,
        handler: AdminHandler[K, V] | None,
        deadline: float,
        mapping: Mapping[K, BrokerId] | None = None,
        limits: DriverLimits | None = None,
        weights: KeyWeights[K] | None = None,
    ) -> None:
        self._lookup, self._handler = lookup, handler
        self._deadline = deadline
        self._limits = limits or DriverLimits()
        self._queue = RequestQueue(brokers, lookup, handler, self._limits, weights)
        self._failures: Counter[K] = Counter()
        self._last_error: dict[K, KafkaGroupsError] = {}
        self._results: list[Outcome[K, V]] = []
        self._discovered: list[Broker] = []
        self._guessed = bool(mapping) and lookup is not None
        known = mapping or {}
        unique = dict.fromkeys(keys)
        self._open = set(unique)
        by_broker: defaultdict[BrokerId | None, list[K]] = defaultdict(list)
        for key, broker_id in zip(unique, map(known.get, unique), strict=True):
            by_broker[broker_id].append(key)
        for broker_id, of_broker in by_broker.items():
            self._queue.add(broker_id, of_broker)

    @property
    def done(self) -> bool:
        """Say whether every key has its result."""
        return not self._open

    @property
    def remaining(self) -> int:
        """Count the keys without a result."""
        return len(self._open)

    def take_results(self) -> list[Outcome[K, V]]:
        """Give the results that came since the last time: (key, value, error)."""
        results, self._results = self._results, []
        return results

    def take_discovered(self) -> list[Broker]:
        """Give the brokers that lookups named since the last time, with their addresses."""
        discovered, self._discovered = self._discovered, []
        return discovered

    def wake_at(self, now: float) -> float:
        """Give the time at which ``poll`` may have something new to say, if nothing happens before."""
        return min([self._deadline, *self._queue.wake_times(now)])

    # What to send

    def poll(self, now: float, at_once: int | None = None) -> list[RequestSpec[K]]:
        """Give the requests to send now; at the deadline, fail what is left.

        :param at_once: stop when the requests have so many keys; there may be more to send then. Default: all of them.
        """
        if now >= self._deadline:
            self._expire()
            return []
        return self._queue.take(now, at_once)

    # What came of it

    def on_response(self, now: float, spec: RequestSpec[K], version: int, response: Message) -> None:
        """Take the answer to a request."""
        result: HandlerResult[K, Any] = spec.handler.parse(spec.broker_id, spec.keys, version, response)
        throttle = getattr(response, "throttle_time", None)
        if throttle:  # brokers answer first and expect the client to keep quiet for this long (KIP-219)
            self._queue.throttle(spec.broker_id, now + throttle.total_seconds())
        self._queue.completed_request(spec)
        asked = set(spec.keys)
        if not spec.is_lookup and result.all_completed(asked):  # as nearly always
            self._finish_all(spec.keys, map(result.completed.__getitem__, spec.keys))
            return
        answered = {*result.completed, *result.failed, *result.unmapped, *result.retry, *result.split}
        for key in spec.keys:
            if key not in answered:
                result.failed[key] = MissingAnswerError(
                    f"broker {spec.broker_id} left {key!r} out of its answer to {spec.handler.api.name}"
                )
        for key, error in result.failed.items():
            if key in asked:
                self._finish(key, None, error)
        for key, value in result.completed.items():
            if key in asked:  # and if the same answer did not say that it failed: then it did
                self._complete(spec, key, value)
        self._halve(spec, {key: error for key, error in result.split.items() if key in asked})
        self._apply_unmapped(now, spec, {key: error for key, error in result.unmapped.items() if key in asked})
        self._pause(now, spec, {key: error for key, error in result.retry.items() if key in asked}, spec.broker_id)

    def on_failure(self, now: float, spec: RequestSpec[K], error: KafkaGroupsError, *, sent: bool = False) -> None:
        """Take the news that a request could not be made, sent or answered.

        :param sent: whether some of it may have reached the broker. Default false.
        """
        self._queue.completed_request(spec)
        if isinstance(error, NoBatchedRequestError) and len(spec.keys) > 1:
            self._queue.send_one_by_one(spec.broker_id, is_lookup=spec.is_lookup)
            self._queue.add(None if spec.is_lookup else spec.broker_id, spec.keys)
        elif isinstance(error, AuthenticationFailedError | LocalProtocolError):
            self._fail_all(spec.keys, error)
        elif sent and not spec.handler.resend_after_loss:
            lost = OutcomeUnknownError(f"{spec.handler.api.name} was sent to broker {spec.broker_id}: {error}")
            lost.__cause__ = error
            self._fail_all(spec.keys, lost)
        elif isinstance(error, ConnectionFailedError | RequestTimeoutError):
            if spec.is_lookup:
                self._queue.throttle(spec.broker_id, now + self._limits.longest_pause)
            elif self._lookup and isinstance(error, ConnectionFailedError):
                # The rest of its keys need not find out one request after the other.
                self._queue.look_up(spec.broker_id)
            self._pause(now, spec, dict.fromkeys(spec.keys, error), None if self._lookup else spec.broker_id)
        else:
            self._fail_all(spec.keys, error)

    def _complete(self, spec: RequestSpec[K], key: K, value: Any) -> None:
        if not spec.is_lookup:
            self._finish(key, value, None)
            return
        broker: Broker = value
        self._discovered.append(broker)
        if self._handler is None:
            self._finish(key, value, None)
        else:
            self._queue.add(broker.broker_id, (key,))

    def _finish(self, key: K, value: V | None, error: KafkaGroupsError | None) -> None:
        if key in self._open:  # an answer that comes after the deadline changes nothing any more
            self._open.discard(key)
            self._results.append((key, value, error))

    def _finish_all(self, keys: Sequence[K], values: Iterable[V]) -> None:
        """Do what ``_finish`` does for all the keys of a request at once."""
        finished: Iterable[Outcome[K, V]] = zip(keys, values, repeat(None), strict=False)
        if not self._open.issuperset(keys):  # some of them were given up before
            finished = [outcome for outcome in finished if outcome[0] in self._open]
        self._results.extend(finished)
        self._open.difference_update(keys)

    def _fail_all(self, keys: Iterable[K], error: KafkaGroupsError) -> None:
        for key in keys:
            self._finish(key, None, error)

    def _halve(self, spec: RequestSpec[K], split: dict[K, KafkaGroupsError]) -> None:
        keys = tuple(key for key in split if key in self._open)
        if len(spec.keys) == 1:
            for key in keys:
                self._finish(key, None, split[key])
            return
        middle = (len(keys) + 1) // 2
        for half in (keys[:middle], keys[middle:]):
            self._queue.add_request(spec.broker_id, half)

    def _apply_unmapped(self, now: float, spec: RequestSpec[K], unmapped: dict[K, KafkaGroupsError]) -> None:
        if self._guessed and 2 * len(unmapped) > len(spec.keys):
            self._guessed = False
            self._queue.look_up_all()
        first_time = tuple(key for key in unmapped if key not in self._failures)
        for key in first_time:
            self._failures[key] += 1
            self._last_error[key] = unmapped.pop(key)
        home = None if self._lookup else spec.broker_id
        self._queue.add(home, first_time)
        self._pause(now, spec, unmapped, home)

    def _pause(
        self, now: float, spec: RequestSpec[K], troubled: dict[K, KafkaGroupsError], broker_id: BrokerId | None
    ) -> None:
        """Put keys aside for as long as their failures say, to be asked of ``broker_id`` or looked up (``None``)."""
        by_pause: dict[float, list[K]] = {}
        for key, error in troubled.items():
            if key not in self._open:
                continue
            self._failures[key] += 1
            self._last_error[key] = error
            tries = (
                self._limits.unstable_tries if isinstance(error, PartitionOffsetsError) else self._limits.give_up_after
            )
            if tries is not None and self._failures[key] >= tries:
                self._finish(key, None, error)
                continue
            pause = self._limits.first_pause * 2 ** min(self._failures[key] - 1, 10)
            by_pause.setdefault(min(pause, self._limits.longest_pause), []).append(key)
        home = None if spec.is_lookup else broker_id
        for pause, keys in by_pause.items():
            jittered = now + pause * random.uniform(0.8, 1.2)  # noqa: S311  # spreads load, guards nothing
            self._queue.schedule_retry(jittered, home, tuple(keys))

    def _expire(self) -> None:
        waiting = {key: spec for spec in self._queue.in_flight_specs for key in spec.keys}
        for key in list(self._open):
            spec = waiting.get(key)
            where = f"; waiting for broker {spec.broker_id} to answer {spec.handler.api.name}" if spec else ""
            reason = self._last_error.get(key)
            why = f"; last: {reason}" if reason else ""
            error: KafkaGroupsError = DeadlineExceededError(f"{key!r} was not done in time{where}{why}")
            if spec is not None and not spec.handler.resend_after_loss:
                error = OutcomeUnknownError(str(error))
            error.__cause__ = reason
            self._finish(key, None, error)
