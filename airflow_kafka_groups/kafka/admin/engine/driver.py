"""All bookkeeping of one batched call; no socket, no task, no clock, and nothing about any one API.

A key goes through two stages, as in Kafka's own AdminApiDriver: *lookup* (which broker?) and *fulfillment* (ask it).
docs/design.md tells what becomes of a key, step by step ("The life of a request").
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, Generic

from airflow_kafka_groups.exceptions import (
    AuthenticationFailedError,
    ClientClosedError,
    ConnectionFailedError,
    DeadlineExceededError,
    KafkaGroupsError,
    LocalProtocolError,
    NoBatchedRequestError,
    NotSentError,
    OutcomeUnknownError,
    RemoteProtocolError,
    RequestTimeoutError,
)
from airflow_kafka_groups.kafka.admin.engine.handler import AdminHandler, HandlerResult, K, Outcome, V
from airflow_kafka_groups.kafka.admin.engine.request_queue import (
    LOOKUPS,
    DriverLimits,
    RequestQueue,
    RequestSpec,
    Scope,
    Stage,
)
from airflow_kafka_groups.kafka.models import Broker, BrokerId
from airflow_kafka_groups.kafka.protocol.codec import Message


class AdminDriver(Generic[K, V]):
    """The bookkeeping of one call, from its keys to their results.

    :param keys: what is asked about; duplicates are removed, order is kept.
    :param brokers: node ids that may be asked for lookups.
    :param lookup: finds the broker of a key; ``None`` when every key's broker is given, and no other may be asked.
    :param handler: asks the question; ``None`` when the broker itself is the answer (``find_coordinators``).
    :param mapping: brokers already known or guessed, by key.
    :param deadline: the time, on the clock of ``now``, at which what is left fails.
    :param throttled: until when brokers are left alone, noted by this call for the next ones of its client, too.
    """

    def __init__(
        self,
        keys: Iterable[K],
        *,
        brokers: Sequence[BrokerId],
        lookup: AdminHandler[K, Broker] | None,
        handler: AdminHandler[K, V] | None,
        deadline: float,
        mapping: Mapping[K, BrokerId],
        limits: DriverLimits,
        throttled: dict[BrokerId, float],
    ) -> None:
        self._lookup, self._handler = lookup, handler
        self.deadline, self._limits, self._throttled = deadline, limits, throttled
        self._queue = RequestQueue(brokers, lookup, handler, limits, throttled)
        self._failures: Counter[K] = Counter()
        self._last_error: dict[K, KafkaGroupsError] = {}
        self._asked_before: set[K] = set()
        self._doubts: dict[K, KafkaGroupsError] = {}
        self._finished: list[Iterable[Outcome[K, V]]] = []
        self._discovered: list[Broker] = []
        unique = dict.fromkeys(keys)
        self._open = set(unique)
        by_broker: defaultdict[BrokerId | None, list[K]] = defaultdict(list)
        for key, broker_id in zip(unique, map(mapping.get, unique), strict=True):
            by_broker[broker_id].append(key)
        for broker_id, of_broker in by_broker.items():
            scope = LOOKUPS if broker_id is None else Scope(Stage.FULFILLMENT, broker_id)
            self._queue.add(scope, of_broker)

    @property
    def done(self) -> bool:
        """Whether every key has its result."""
        return not self._open

    def take_results(self) -> chain[Outcome[K, V]]:
        """Return the results that came since the last time: (key, value, error). They can be read once."""
        finished, self._finished = self._finished, []
        return chain.from_iterable(finished)

    def take_discovered(self) -> list[Broker]:
        """Return the brokers that lookups named since the last time, with their addresses."""
        discovered, self._discovered = self._discovered, []
        return discovered

    def wake_at(self, now: float) -> float:
        """Return the time at which ``poll`` may have something new, if nothing happens before."""
        return min([self.deadline, *self._queue.wake_times(now)])

    def poll(self, now: float, at_once: int | None = None) -> list[RequestSpec[K]]:
        """Return the requests to send now, of about ``at_once`` keys or all; at the deadline, fail what is left."""
        if now >= self.deadline:
            self._expire()
            return []
        return self._queue.take(now, at_once)

    def on_response(self, now: float, spec: RequestSpec[K], version: int, *responses: Message) -> None:
        """Take the answer to a request, or the answers to a series, in the order of its keys."""
        broker_id, handler = spec.scope.broker_id, spec.handler
        result: HandlerResult[K, Any] = (
            handler.parse_series(broker_id, spec.keys, version, responses)
            if spec.singly
            else handler.parse(broker_id, spec.keys, version, *responses)
        )
        if self._lookup is None:  # no other broker may be asked
            result.fail_unmapped()
        throttles = [time for response in responses if (time := getattr(response, "throttle_time", None))]
        if throttles:  # the broker expects silence from now on (KIP-219)
            self._throttle(broker_id, now + max(throttles).total_seconds())
        others = result.failed or result.unmapped or result.retry
        self._queue.complete(spec)
        final = spec.scope.stage is Stage.FULFILLMENT or self._handler is None
        completed = result.completed
        if final and not others and (values := spec.values(completed)) is not None:  # nearly always
            if spec.scope.stage is Stage.LOOKUP:
                self._discovered.extend({broker.broker_id: broker for broker in completed.values()}.values())
            self._finish_all(spec.keys, values)
            return
        asked = set(spec.keys)
        result.fail_unclear(spec.keys, broker_id, spec.handler.api)
        self._halve(spec, result.failed_together(spec.keys), result.failed)
        for key in filter(result.failed.__contains__, spec.keys):
            self._finish(key, None, result.failed[key])
        for key, value in result.completed.items():
            if key in asked and key in self._open:  # not if the same answer said that it failed: then it did
                self._complete(spec, key, value)
        if spec.scope.stage is Stage.FULFILLMENT:  # brokers also answer so when a change was written and not replicated
            self._asked_before.update(result.unmapped)
            self._doubts |= {key: error for key, error in result.unmapped.items() if spec.handler.may_be_done(error)}
        still = asked & self._open
        self._apply_unmapped(now, spec, {key: error for key, error in result.unmapped.items() if key in still})
        self._pause(now, spec, {key: error for key, error in result.retry.items() if key in asked}, spec.scope)

    def on_failure(self, now: float, spec: RequestSpec[K], error: KafkaGroupsError, *, sent: bool = False) -> None:
        """Take the news that a request could not be made, sent (of which some may have arrived) or answered."""
        self._queue.complete(spec)
        if isinstance(error, NoBatchedRequestError) and len(spec.keys) > 1 and not spec.singly:
            self._queue.send_singly(spec.scope)
            self._queue.add(self._again(spec.scope), spec.keys)
        elif isinstance(error, AuthenticationFailedError | ClientClosedError | LocalProtocolError):
            self._fail_all(spec.keys, error)
        elif isinstance(error, NotSentError):
            for key in spec.keys:  # an earlier request may have done something before it was split or refused
                before = OutcomeUnknownError(f"{spec.handler.api.name} was sent before, and not again: {error}")
                self._finish(key, None, before if key in self._asked_before else error)
        elif sent and not spec.handler.resend_after_loss:
            lost = OutcomeUnknownError(f"{spec.handler.api.name} was sent to broker {spec.scope.broker_id}: {error}")
            lost.__cause__ = error
            self._fail_all(spec.keys, lost)
        elif isinstance(error, ConnectionFailedError | RequestTimeoutError):
            if spec.scope.stage is Stage.LOOKUP:
                self._throttle(spec.scope.broker_id, now + self._limits.longest_pause)
            elif self._lookup and isinstance(error, ConnectionFailedError):
                # The rest of its keys need not find out one request after the other.
                self._queue.look_up(spec.scope.broker_id)
            self._pause(now, spec, dict.fromkeys(spec.keys, error), self._elsewhere(spec.scope))
        else:
            failed = dict.fromkeys(spec.keys, error)
            if sent and isinstance(error, RemoteProtocolError):  # it may be one key that cannot be read
                self._halve(spec, spec.keys, failed)
            self._fail_all(failed, error)

    def _halve(self, spec: RequestSpec[K], keys: Iterable[K], failed: dict[K, KafkaGroupsError]) -> None:
        """Ask again about what failed together, and take it out of ``failed``; not about a key that failed alone."""
        together = tuple([key for key in keys if key in self._open])
        if self._queue.halve(spec, together):
            self._asked_before.update(together)
            self._last_error.update({key: failed.pop(key) for key in together})

    def _throttle(self, broker_id: BrokerId, until: float) -> None:
        self._throttled[broker_id] = max(until, self._throttled.get(broker_id, until))  # a longer one holds

    def part(self, spec: RequestSpec[K], keys: Collection[K]) -> RequestSpec[K]:
        """Make some requests of a series their own one; it keeps the rest (see ``RequestQueue.part``)."""
        return self._queue.part(spec, keys)

    def _again(self, scope: Scope) -> Scope:
        return LOOKUPS if scope.stage is Stage.LOOKUP else scope

    def _elsewhere(self, scope: Scope) -> Scope:
        return LOOKUPS if self._lookup else scope

    def _complete(self, spec: RequestSpec[K], key: K, value: Any) -> None:
        if spec.scope.stage is Stage.FULFILLMENT:
            self._finish(key, value, None)
            return
        self._discovered.append(value)
        if self._handler is None:
            self._finish(key, value, None)
        else:
            self._queue.add(Scope(Stage.FULFILLMENT, value.broker_id), (key,))

    def _finish(self, key: K, value: V | None, error: KafkaGroupsError | None) -> None:
        if key in self._open:  # an answer that comes after the deadline changes nothing any more
            self._open.discard(key)
            if error is not None and key in self._doubts:  # no refusal says that nothing was done before
                error = OutcomeUnknownError(f"it may have been done before: {self._doubts[key]}; then: {error}")
            self._finished.append([(key, value, error)])

    def _finish_all(self, keys: Sequence[K], values: Iterable[V]) -> None:
        """Finish all keys of a request at once, as ``_finish`` does for one. Values are made when they are taken."""
        finished: Iterable[Outcome[K, V]] = zip(keys, values, repeat(None), strict=False)
        if not self._open.issuperset(keys):  # some of them were given up before
            finished = [outcome for outcome in finished if outcome[0] in self._open]
        self._finished.append(finished)
        self._open.difference_update(keys)

    def _fail_all(self, keys: Iterable[K], error: KafkaGroupsError) -> None:
        for key in keys:
            self._finish(key, None, error)

    def _apply_unmapped(self, now: float, spec: RequestSpec[K], unmapped: dict[K, KafkaGroupsError]) -> None:
        first_time = tuple(key for key in unmapped if key not in self._failures)
        for key in first_time:
            self._failures[key] += 1
            self._last_error[key] = unmapped.pop(key)
        self._queue.add(self._elsewhere(spec.scope), first_time)
        self._pause(now, spec, unmapped, self._elsewhere(spec.scope))

    def _pause(self, now: float, spec: RequestSpec[K], troubled: dict[K, KafkaGroupsError], scope: Scope) -> None:
        by_pause: dict[float, list[K]] = {}
        for key, error in troubled.items():
            if key not in self._open:
                continue
            self._failures[key] += 1
            self._last_error[key] = error
            if (tries := spec.handler.max_tries(error)) is not None and self._failures[key] >= tries:
                self._finish(key, None, error)
                continue
            pause = self._limits.first_pause * 2 ** min(self._failures[key] - 1, 10)
            by_pause.setdefault(min(pause, self._limits.longest_pause), []).append(key)
        for pause, keys in by_pause.items():
            jittered = now + pause * random.uniform(0.8, 1.2)  # noqa: S311  # spreads load, guards nothing
            self._queue.schedule_retry(jittered, self._again(scope), tuple(keys))

    def _expire(self) -> None:
        waiting = {key: spec for spec in self._queue.in_flight for key in spec.keys}
        for key in list(self._open):
            spec = waiting.get(key)
            where = f"; waiting for broker {spec.scope.broker_id} to answer {spec.handler.api.name}" if spec else ""
            why = f"; last: {reason}" if (reason := self._last_error.get(key)) else ""
            error: KafkaGroupsError = DeadlineExceededError(f"{key!r} was not done in time{where}{why}")
            if spec is not None and not spec.handler.resend_after_loss:
                error = OutcomeUnknownError(str(error))
            error.__cause__ = reason
            self._finish(key, None, error)
