"""The connections to the brokers of a cluster: bootstrap, broker ids, addresses. No group logic.

A connection is opened when it is first needed, one for each broker; concurrent callers share the attempt. A broker
works on one request of a connection at a time, so callers may number further connections: an extra, opened after the
broker's own one, which is used in their place where they cannot be opened.

A client stays with the cluster that answered first. An advertised address may lead to another one, whose groups have
the same names; so a broker says which cluster it is of before it is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import random
import time
from collections import Counter
from collections.abc import Awaitable, Collection
from functools import partial
from types import TracebackType
from typing import TypeVar

from airflow_kafka_groups.exceptions import (
    AuthenticationFailedError,
    ClientClosedError,
    ConfigurationError,
    ConnectionFailedError,
    KafkaGroupsError,
    NoBrokerAvailableError,
)
from airflow_kafka_groups.kafka.cluster.bootstrap import ClusterMetadata, Openings, bootstrap, close_all
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.cluster.products import known_id
from airflow_kafka_groups.kafka.cluster.routing import OFFSETS_TOPIC
from airflow_kafka_groups.kafka.models import Broker, BrokerId
from airflow_kafka_groups.kafka.protocol.api_versions import METADATA
from airflow_kafka_groups.kafka.protocol.apis import metadata as metadata_api
from airflow_kafka_groups.kafka.transport.aiokafka_connection import TlsContext
from airflow_kafka_groups.kafka.transport.connection import BrokerConnection, Connector, open_connection

_OPENED = "`async with AdminClient(config) as admin:`"


class Home:
    """Where a client may be used: in the process and the event loop in which it was opened, until it is closed.

    A fork shares the sockets: each process would take the answers of the other one for its own. The connections of
    another loop get their answers in that one, or never if it is closed.
    """

    def __init__(self) -> None:
        self._closed = False
        self.place: tuple[int, asyncio.AbstractEventLoop] | None = None
        """The process id and the loop in which the client was opened; ``None`` before."""

    def open(self) -> None:
        """Note where the client is opened. Raises what ``require`` raises where it is open elsewhere."""
        if self.place is not None and not self._closed:  # the connections would be those of there
            self.require()
        self._closed, self.place = False, (os.getpid(), asyncio.get_running_loop())

    def close(self) -> bool:
        """Note that the client is closed where its connections are those of this process; return whether they are."""
        is_here = self.place is None or self.place[0] == os.getpid()
        self._closed = self._closed or is_here
        return is_here

    def require(self) -> None:
        """Raise ``ConfigurationError`` for a client that is not open, or was opened in another place."""
        if self.place is None:  # it knows no broker, so that calls would wait for one until their deadline
            raise ConfigurationError("client", None, f"it is not open: call it inside of {_OPENED}")
        process, loop = self.place
        for where, is_other in (
            ("process (a fork)", process != os.getpid()),
            ("event loop", loop is not asyncio.get_running_loop()),
        ):
            if is_other:
                remedy = f"open one of its own in each: {_OPENED} in this {where}"
                raise ConfigurationError("client", None, f"it was opened in another {where}; {remedy}")

    def require_open(self) -> None:
        """Raise ``ClientClosedError`` after the client was closed, and what ``require`` raises."""
        self.require()
        if self._closed:
            raise ClientClosedError


T = TypeVar("T")

LAST_TRY = 1.0
"""Seconds that each later call waits: the broker may have recovered. Any answer restarts the time."""


class Patience:
    """Since when brokers have answered nothing: one that is silent is waited for by all calls together.

    A command or a task makes many calls. Each of them would wait for a frozen broker until its own deadline.

    :param seconds: how long a broker is waited for (``api_timeout``).
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._since: dict[BrokerId, float] = {}

    def asked(self, broker_id: BrokerId) -> None:
        """Note that a broker is waited for from now on, if it was not before."""
        self._since.setdefault(broker_id, time.monotonic())

    def answered(self, broker_id: BrokerId) -> None:
        """Note that a broker has answered, or that nobody waits for it any more."""
        self._since.pop(broker_id, None)

    def extend(self, seconds: float) -> None:
        """Put the end of all waiting off, by time in which no answer was looked for."""
        self._since = {broker_id: since + seconds for broker_id, since in self._since.items()}

    def is_silent(self, broker_id: BrokerId) -> bool:
        """Return whether others are better asked what any broker knows."""
        return time.monotonic() - self._since.get(broker_id, math.inf) > LAST_TRY

    def left(self, broker_id: BrokerId, begun: float | None = None) -> float:
        """Return the seconds for which a broker may be waited for, infinite if it has answered all.

        :param begun: when this call asked it first, by ``time.monotonic()``. Default: now.
        """
        if (since := self._since.get(broker_id)) is None:
            return math.inf
        now = time.monotonic()
        return max(since + self.seconds, (now if begun is None else begun) + LAST_TRY) - now

    async def wait(self, answer: Awaitable[T], broker_id: BrokerId | None) -> T:
        """Wait for an answer as long as a silent broker may be waited for. Raises ``ConnectionFailedError`` after that.

        The answer of another broker has a timeout of its own.

        :param broker_id: the broker; ``None`` if it is not known yet.
        """
        if broker_id is None:
            return await answer
        self.asked(broker_id)
        try:
            async with asyncio.timeout(self.left(broker_id) if self.is_silent(broker_id) else None):
                found = await answer
        except TimeoutError as error:
            raise ConnectionFailedError(f"broker {broker_id}", "it answers nothing, as in the calls before") from error
        self.answered(broker_id)
        return found


log = logging.getLogger(__name__)

_JUST_NOW = 1.0
"""Seconds for which metadata counts as fresh: asking again would hardly return anything newer."""

_REFUSED_FOR = 10.0
"""Seconds for which a further connection that could not be opened is not tried again."""

_Slot = tuple[BrokerId, int]
"""A broker and the number of a connection to it; its own one has the number 0."""


class ClusterClient:
    """The connections to a cluster's brokers. Use it as an async context manager.

    :param config: how to reach the cluster.
    :param connect: opens a connection; a test passes its own. Default: the real one.
    """

    def __init__(self, config: ClientConfig, connect: Connector | None = None) -> None:
        self.config = config
        self.metadata = ClusterMetadata()
        self.connect = connect or partial(
            open_connection,
            security=config.security,
            tls=TlsContext(config.security),
            client_id=config.client_id,
            timeout=config.connect_timeout,
        )
        self._connections: dict[_Slot, BrokerConnection] = {}
        self._described_by: BrokerConnection | None = None
        self._advertised: dict[BrokerId, Broker] = {}
        self._unreached: set[BrokerId] = set()
        self._opening: dict[_Slot, asyncio.Task[BrokerConnection]] = {}
        self._ahead: set[asyncio.Task[BrokerConnection]] = set()  # of which nobody has the connection yet
        self._refused: dict[_Slot, float] = {}
        self._fresh_at = -_JUST_NOW
        self.home = Home()
        self.patience = Patience(config.api_timeout)

    async def __aenter__(self) -> ClusterClient:
        self.home.open()
        try:
            await self.refresh()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every connection. Calls that still run fail with ``ClientClosedError`` where they need another."""
        if not self.home.close():
            return
        opening, self._opening, self._ahead = {*self._opening.values(), *self._ahead}, {}, set()
        await close_all(opening)
        connections, self._connections = set(self._connections.values()), {}
        await asyncio.gather(*(connection.aclose() for connection in connections))

    async def refresh(self) -> ClusterMetadata:
        """Request the brokers and the leaders of ``__consumer_offsets`` again, for at most the time of a call.

        Raises ``NoBrokerAvailableError`` when no broker and no bootstrap server answers.
        """
        self.home.require_open()
        limit, servers = self.config.api_timeout, self.config.servers
        try:
            async with asyncio.timeout(limit):
                return await self._ask_anyone()
        except TimeoutError as error:
            reason = f"none of {servers} answered a metadata request within {limit:g} s"
            raise NoBrokerAvailableError(servers, reason) from error

    async def fresh_metadata(self) -> ClusterMetadata:
        """Return the metadata if it is fresh, as for a new client, or else request it again, as ``refresh`` does."""
        return self.metadata if time.monotonic() - self._fresh_at < _JUST_NOW else await self.refresh()

    async def _ask_anyone(self) -> ClusterMetadata:
        for broker_id in self._in_order():
            if (broker_id, 0) in self._opening:  # it may be waiting for this metadata (``_address_of``)
                continue
            try:
                return await self._ask_metadata(await self.connection(broker_id), broker_id)
            except (AuthenticationFailedError, ConfigurationError):  # no other broker will do better
                raise
            except KafkaGroupsError as error:
                log.debug("broker %s did not give metadata: %s", broker_id, error)
        return await self._bootstrap()

    async def _bootstrap(self) -> ClusterMetadata:
        """Ask the bootstrap servers, and keep the connections to those that are brokers.

        Brokers are addressed by their id from here on, and a bootstrap address may belong to a load balancer. So a
        connection is kept only where exactly one broker advertises that address.
        """
        openings: Openings = {}
        try:
            metadata = await bootstrap(self.config, self.connect, self._ask_metadata, openings)
            self.home.require_open()
            times = Counter((broker.host, broker.port) for broker in metadata.brokers.values())
            for broker_id, broker in metadata.brokers.items():
                here, slot = (broker.host, broker.port), (broker_id, 0)
                opening = openings.get(here)
                unwanted = times[here] > 1 or slot in self._connections or slot in self._opening
                if unwanted or opening is None or (opening.done() and (opening.cancelled() or opening.exception())):
                    continue
                del openings[here]
                if not (opening.done() and opening.result() is self._described_by):
                    self._ahead.add(opening)
                    opening = asyncio.create_task(self.of_this_cluster(opening))
                self._share(slot, opening)
            return metadata
        finally:
            await close_all(openings.values())

    async def _ask_metadata(self, connection: BrokerConnection, broker_id: BrokerId | None = None) -> ClusterMetadata:
        version = connection.versions.choose(METADATA)
        request = metadata_api.build([OFFSETS_TOPIC], version)
        sent = connection.send(METADATA, version, request, self.config.request_timeout)
        answer = await self.patience.wait(sent, broker_id)
        if not answer.brokers:
            raise ConnectionFailedError("cluster", "the broker knows no brokers; it may be starting up, try again")
        self.metadata.require_same_cluster(answer.cluster_id)
        self.metadata, self._described_by = ClusterMetadata.from_answer(answer), connection
        self._fresh_at = time.monotonic()
        return self.metadata

    async def of_this_cluster(self, opening: Awaitable[BrokerConnection]) -> BrokerConnection:
        """Return a connection when it is open and its broker has said that it is of this cluster; close it if not."""
        connection = await opening
        self._ahead -= {opening}
        if known_id(self.metadata.cluster_id) is not None:
            try:
                version = connection.versions.choose(METADATA)
                request = metadata_api.build([], version)
                answer = await connection.send(METADATA, version, request, self.config.connect_timeout)
                self.metadata.require_same_cluster(answer.cluster_id)
            except BaseException:
                await connection.aclose()
                raise
        return connection

    async def private_connection(self, broker_id: BrokerId) -> BrokerConnection:
        """Open a connection to a broker for the caller alone, who closes it. Raises what ``connection`` raises."""
        broker = await self._address_of(broker_id)
        try:
            return await self.of_this_cluster(self.connect(broker.host, broker.port))
        except KafkaGroupsError:
            self._unreached.add(broker_id)
            raise

    def learn(self, broker: Broker) -> None:
        """Remember the address of a broker from a coordinator lookup; it is used where metadata has none."""
        self._advertised[broker.broker_id] = broker

    async def any_connection(self, avoid: Collection[BrokerId] = ()) -> tuple[BrokerId, BrokerConnection]:
        """Return any broker that can be reached, with a connection, for a request that all of them answer alike.

        Open connections come first, silent brokers and those to ``avoid`` last. Raises what ``connection`` raises.
        """
        *others, last = self._in_order(avoid)
        for broker_id in others:
            try:
                return broker_id, await self.connection(broker_id)
            except (AuthenticationFailedError, ConfigurationError):  # no other broker will do better
                raise
            except KafkaGroupsError as error:
                log.debug("broker %s is not asked: %s", broker_id, error)
        return last, await self.connection(last)

    def _in_order(self, avoid: Collection[BrokerId] = ()) -> list[BrokerId]:
        """Return the brokers: of those that are not connected to, each that is down takes the time of a connection."""
        silent, brokers = self.patience.is_silent, random.sample([*self.metadata.brokers], len(self.metadata.brokers))
        return sorted(brokers, key=lambda id_: (id_ in avoid, silent(id_), not self.open_connection(id_)))

    def open_connection(self, broker_id: BrokerId, number: int = 0) -> BrokerConnection | None:
        """Return the connection to a broker if there is one that may be used now, by default the broker's own."""
        connection = self._connections.get((broker_id, number))
        return connection if connection is not None and connection.usable else None

    async def connection(self, broker_id: BrokerId, number: int = 0) -> BrokerConnection:
        """Return the connection to a broker, opening it if need be.

        :param number: which of several. Default: the broker's own, which is also returned in place of another that
            cannot be opened.

        Raises ``ConnectionFailedError``, or ``AuthenticationFailedError``.
        """
        if (connection := self.open_connection(broker_id, number)) is not None:
            return connection
        self.home.require_open()
        slot = broker_id, number
        if time.monotonic() < self._refused.get(slot, 0.0):
            return await self.connection(broker_id)
        task = self._opening.get(slot)
        if task is None:
            task = asyncio.create_task(self._open_slot(slot), name=f"connect to broker {broker_id}")
            self._share(slot, task)
        try:
            # Shielded: others may wait for the same opening when the one who began it is cancelled.
            return await self.patience.wait(asyncio.shield(task), broker_id)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if task.cancelled() and caller is not None and not caller.cancelling():
                self.home.require_open()  # the client was closed, and nobody has cancelled the caller
            raise
        except ConnectionFailedError as error:
            own = self.open_connection(broker_id) if number else None
            if own is None:
                raise
            log.debug("broker %s takes no further connection: %s", broker_id, error)
            self._refused[slot] = time.monotonic() + _REFUSED_FOR
            return own

    def _share(self, slot: _Slot, opening: asyncio.Task[BrokerConnection]) -> None:
        """Share the attempt to open a connection with all callers that need it."""
        self._opening[slot] = opening
        if opening.done():
            self._opened(slot, opening)
        else:
            opening.add_done_callback(lambda done: self._opened(slot, done))

    def _opened(self, slot: _Slot, task: asyncio.Task[BrokerConnection]) -> None:
        if self._opening.get(slot) is task:
            del self._opening[slot]
            if task.cancelled():
                return
            if task.exception() is None:
                self._connections[slot] = task.result()
            elif slot[1] == 0:
                self._unreached.add(slot[0])

    async def _open_slot(self, slot: _Slot) -> BrokerConnection:
        broker_id, number = slot
        if number:
            await self.connection(broker_id)
        broker = await self._address_of(broker_id)
        if (old := self._connections.get(slot)) is not None:
            await old.drain()  # its login expires: what is under way is answered before
            del self._connections[slot]
            await old.aclose()
        opening = self.connect(broker.host, broker.port)
        return await opening if number else await self.of_this_cluster(opening)

    async def _address_of(self, broker_id: BrokerId) -> Broker:
        """Return the address of a broker from metadata, which is refreshed for one that is not there or not reached.

        Proxies rewrite it there, but not always in FindCoordinator.
        """
        if broker_id not in self.metadata.brokers or broker_id in self._unreached:
            self._unreached.discard(broker_id)
            with contextlib.suppress(KafkaGroupsError):
                await self.refresh()
        broker = self.metadata.brokers.get(broker_id) or self._advertised.get(broker_id)
        if broker is None:
            raise ConnectionFailedError(f"broker {broker_id}", "the cluster's metadata does not know this broker")
        return broker
