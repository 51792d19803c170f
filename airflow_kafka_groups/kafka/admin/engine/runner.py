"""The loop that runs a driver over a cluster: sends its requests, hands it the answers, and cleans up."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from itertools import chain
from typing import Generic

from airflow_kafka_groups.exceptions import DeadlineExceededError, KafkaGroupsError, NotSentError
from airflow_kafka_groups.kafka.admin.engine.driver import AdminDriver
from airflow_kafka_groups.kafka.admin.engine.handler import K, Outcome, V
from airflow_kafka_groups.kafka.admin.engine.request_queue import RequestSpec
from airflow_kafka_groups.kafka.admin.results import collection_paused
from airflow_kafka_groups.kafka.cluster import clock
from airflow_kafka_groups.kafka.cluster.client import ClusterClient
from airflow_kafka_groups.kafka.models import BrokerId
from airflow_kafka_groups.kafka.protocol.codec import Message
from airflow_kafka_groups.kafka.transport.connection import BrokerConnection, SentRequests

log = logging.getLogger(__name__)

_KEYS_AT_ONCE = 512
"""Keys whose requests are cut before these are sent and the next are cut."""


async def collect(driver: AdminDriver[K, V], cluster: ClusterClient) -> list[Outcome[K, V]]:
    """Drive a call to its end and return all the results, in the order in which they came."""
    with collection_paused():
        async with aclosing(batches(driver, cluster)) as steps:
            return [result async for results in steps for result in results]


async def batches(driver: AdminDriver[K, V], cluster: ClusterClient) -> AsyncGenerator[chain[Outcome[K, V]], None]:
    """Drive a call to its end and yield the results of each step as they are known; a step may have none.

    Close it when leaving early: what is under way ends then.
    """
    clock = asyncio.get_running_loop().time
    exchanges = _Exchanges(driver, cluster)
    try:
        while not driver.done:
            now = clock()
            if now >= driver.deadline:
                exchanges.take_early()
            exchanges.give_up()
            specs = driver.poll(now, _KEYS_AT_ONCE)
            for spec in specs:
                exchanges.begin(spec)
            if specs:
                await asyncio.sleep(0)  # they are written, and on their way while more are cut
            elif not driver.done:
                await exchanges.wait(driver.wake_at(clock()) - clock())
            yield driver.take_results()
        exchanges.raise_bug()
    finally:
        await exchanges.cancel()


class _Exchanges(Generic[K, V]):
    """The requests under way. Only one whose connection has to be opened first costs a task."""

    def __init__(self, driver: AdminDriver[K, V], cluster: ClusterClient) -> None:
        self._driver = driver
        self._cluster = cluster
        self._clock = asyncio.get_running_loop().time
        self._under_way: dict[RequestSpec[K], SentRequests | asyncio.Task[None]] = {}
        self._something_came = asyncio.Event()
        self._asked_at: dict[BrokerId, float] = {}
        self._bug: BaseException | None = None

    def begin(self, spec: RequestSpec[K]) -> None:
        """Send a request; the driver gets what came of it."""
        self._cluster.patience.asked(spec.scope.broker_id)
        self._asked_at.setdefault(spec.scope.broker_id, time.monotonic())
        connection = self._cluster.open_connection(spec.scope.broker_id, spec.handler.turns.get(spec.keys[0], 0))
        if connection is not None:
            self._send(spec, connection)
        else:
            self._under_way[spec] = asyncio.create_task(self._open_and_send(spec))

    def _left(self) -> dict[BrokerId, float]:
        """Return the seconds for which brokers may be waited for. A change that was sent is waited for in any case."""
        asked = {spec.scope.broker_id for spec in self._under_way if self._may_end(spec)}
        return {id_: self._cluster.patience.left(id_, self._asked_at[id_]) for id_ in asked}

    def _may_end(self, spec: RequestSpec[K]) -> bool:
        return spec.handler.resend_after_loss or isinstance(self._under_way[spec], asyncio.Task)

    def give_up(self) -> None:
        """Fail the requests to brokers that this call and those before it have waited for long enough."""
        late = [broker_id for broker_id, seconds in self._left().items() if seconds <= 0]
        for spec, under_way in list(self._under_way.items()) if late else ():
            if spec.scope.broker_id in late and self._may_end(spec):
                under_way.cancel()
                kind = DeadlineExceededError if spec.handler.resend_after_loss else NotSentError
                waited = f"waiting for broker {spec.scope.broker_id} to answer {spec.handler.api.name}"
                self._fail(spec, kind(f"it was not done in time; {waited}, as calls before this one did"), sent=False)

    async def wait(self, seconds: float) -> None:
        """Wait until something came, until the time is over, or until a broker is given up; raise what is a bug."""
        seconds = min([seconds, *self._left().values()])
        timer = asyncio.get_running_loop().call_later(seconds, self._something_came.set)
        try:
            await self._something_came.wait()
        finally:
            timer.cancel()
        self._something_came.clear()
        self.raise_bug()

    def raise_bug(self) -> None:
        """Raise what the driver or a handler raised, if anything: it is reported before the deadline."""
        if self._bug is not None:
            raise self._bug

    async def cancel(self) -> None:
        """End what is still under way. A broker that is given up here is not known to be silent."""
        if not self._driver.done:
            for spec in self._under_way:
                self._cluster.patience.answered(spec.scope.broker_id)
        for under_way in self._under_way.values():
            under_way.cancel()
        opening = [task for task in self._under_way.values() if isinstance(task, asyncio.Task)]
        await asyncio.gather(*opening, return_exceptions=True)

    async def _open_and_send(self, spec: RequestSpec[K]) -> None:
        try:
            number = spec.handler.turns.get(spec.keys[0], 0)
            connection = await self._cluster.connection(spec.scope.broker_id, number)
        except KafkaGroupsError as error:
            self._fail(spec, error, sent=False)
        except Exception as error:  # noqa: BLE001  # raised by ``wait``
            self._bug = error
        else:
            self._send(spec, connection)
        self._something_came.set()

    def _send(self, spec: RequestSpec[K], connection: BrokerConnection) -> None:
        api = spec.handler.api
        try:
            version = connection.versions.choose(api)
            build = spec.handler.build
            each = [(key,) for key in spec.keys] if spec.singly else [spec.keys]
            requests = [build(keys, version) for keys in each]
            if spec.handler.changes_groups and self._is_too_late(spec.handler.send_by):
                raise NotSentError(f"{api} to broker {spec.scope.broker_id} could not leave in the time it had")
            timeout = self._cluster.config.request_timeout
            on_answers = partial(self._receive, spec, version)
            self._under_way[spec] = connection.submit(api, version, requests, timeout, on_answers)
        except KafkaGroupsError as error:  # a connection that is lost already sends nothing
            self._fail(spec, error, sent=False)
        except Exception as error:  # noqa: BLE001  # raised by ``wait``
            self._bug = error
            self._something_came.set()

    def _is_too_late(self, send_by: float) -> bool:
        return self._clock() >= self._driver.deadline or (send_by < math.inf and clock.now() >= send_by)

    def take_early(self) -> None:
        """Hand over the answers of series of which others are still to come, as the call ends now.

        A change that still waits for its connection has not happened: its outcome is known.
        """
        for spec, under_way in list(self._under_way.items()):
            if not isinstance(under_way, asyncio.Task):
                under_way.flush()
            elif not spec.handler.resend_after_loss and under_way.cancel():
                where = f"{spec.handler.api} to broker {spec.scope.broker_id}"
                self._fail(spec, NotSentError(f"{where} could not leave in the time it had: no connection"), sent=False)

    def _receive(
        self, spec: RequestSpec[K], version: int, answers: Sequence[Message], errors: Mapping[int, KafkaGroupsError]
    ) -> None:
        try:
            if len(answers) < spec.requests:
                spec = self._driver.part(spec, spec.keys[: len(answers)])
            else:
                del self._under_way[spec]
            if errors:  # each request of a series has its own end
                failed: defaultdict[KafkaGroupsError, list[K]] = defaultdict(list)
                for place, error in errors.items():
                    failed[error].extend(spec.keys[place : place + 1] if spec.singly else spec.keys)
                answers = [answer for place, answer in enumerate(answers) if place not in errors]
                *some, (last, keys) = failed.items()
                for error, of_error in some:
                    self._fail(self._driver.part(spec, of_error), error, sent=True)
                self._fail(self._driver.part(spec, keys) if answers else spec, last, sent=True)
            if answers:
                self._cluster.patience.answered(spec.scope.broker_id)
                if any(other.scope.broker_id == spec.scope.broker_id for other in self._under_way):
                    self._cluster.patience.asked(spec.scope.broker_id)
                self._driver.on_response(self._clock(), spec, version, *answers)
                for broker in self._driver.take_discovered():
                    self._cluster.learn(broker)
        except Exception as bug:  # noqa: BLE001  # raised by ``wait``
            self._bug = bug
        self._something_came.set()

    def _fail(self, spec: RequestSpec[K], error: KafkaGroupsError, *, sent: bool) -> None:
        log.debug("%s to broker %s for %d keys: %s", spec.handler.api, spec.scope.broker_id, len(spec.keys), error)
        self._under_way.pop(spec, None)
        self._driver.on_failure(self._clock(), spec, error, sent=sent)
        self._something_came.set()
