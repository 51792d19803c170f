"""A member's own connection to its group coordinator.

A broker answers the requests of one connection in order, and it holds back JoinGroup and SyncGroup responses until all
members have joined: up to the longest rebalance timeout. Later requests on that connection wait as well. Therefore, as
in Java's client, a membership does not use the shared connections of ``ClusterClient``. A member's own requests do not
block each other: no heartbeat is due while a join is in flight (the broker counts the join as one), and a member that
leaves during a join opens a new connection.

As those shared connections do, it leads to a broker of the client's cluster or nowhere: the address of a broker may be
given away, and a lease that another cluster confirms excludes nobody on this one.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from airflow_kafka_groups.exceptions import (
    AuthenticationFailedError,
    ClientClosedError,
    ConnectionFailedError,
    KafkaGroupsError,
    MissingAnswerError,
    UnsupportedVersionError,
)
from airflow_kafka_groups.kafka.cluster.client import ClusterClient
from airflow_kafka_groups.kafka.models import Broker, CoordinatorType
from airflow_kafka_groups.kafka.protocol.api_versions import FIND_COORDINATOR, Api
from airflow_kafka_groups.kafka.protocol.apis import find_coordinator
from airflow_kafka_groups.kafka.protocol.codec import Message
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from airflow_kafka_groups.kafka.transport.base import BrokerConnection, Connector
from airflow_kafka_groups.kafka.transport.connection import open_connection

FATAL = (AuthenticationFailedError, ClientClosedError, UnsupportedVersionError)
"""Errors that a retry cannot solve."""


class CoordinatorLink:
    """Finds the coordinator of one group and keeps one connection to it.

    :param cluster: provides the brokers. Its own connections are used only to find the coordinator.
    :param group_id: the group.
    :param connect: opens a connection. Default: ``open_connection``. Replaced in tests.
    """

    def __init__(self, cluster: ClusterClient, group_id: str, connect: Connector | None = None) -> None:
        self.coordinator: Broker | None = None
        self._cluster = cluster
        self._group_id = group_id
        config = cluster.config
        self._connect = connect or partial(
            open_connection, security=config.security, client_id=config.client_id, timeout=config.connect_timeout
        )
        self._connection: BrokerConnection | None = None
        self._discarded: list[BrokerConnection] = []
        self._opening = asyncio.Lock()

    async def find(self) -> ErrorCode:
        """Ask any broker for the coordinator, and store it in ``coordinator`` unless an error code is returned.

        Raises the last broker's error when no broker answers.
        """
        brokers = list(self._cluster.metadata.brokers)
        before = None if self.coordinator is None else self.coordinator.broker_id
        failure: KafkaGroupsError | None = None
        # The last coordinator comes last: it may hang, and be the reason for the question.
        for broker_id in sorted(random.sample(brokers, len(brokers)), key=lambda broker_id: broker_id == before):
            try:
                return await self._ask(broker_id)
            except FATAL:
                raise
            except KafkaGroupsError as error:
                failure = error
        await self._cluster.refresh()  # all brokers may have moved; raises when no bootstrap server answers either
        raise failure or ConnectionFailedError("cluster", "no broker is known yet")

    async def _ask(self, broker_id: int) -> ErrorCode:
        connection = await self._cluster.connection(broker_id)
        version = connection.versions.choose(FIND_COORDINATOR)
        request = find_coordinator.build([self._group_id], CoordinatorType.GROUP, version)
        timeout = self._cluster.config.request_timeout
        response = await connection.send(FIND_COORDINATOR, version, request, timeout)
        answer = find_coordinator.named(response, [self._group_id], version)
        for failure in answer.failed:
            if failure.key == self._group_id:
                return failure.error
        if self._group_id in answer.found:
            self._move_to(answer.found[self._group_id])
            return ErrorCode.none
        raise MissingAnswerError(f"FindCoordinator: broker {broker_id} left out group {self._group_id!r}")

    def _move_to(self, coordinator: Broker) -> None:
        if self.coordinator is None or self.coordinator.address != coordinator.address:
            self._discard(self._connection)
        self.coordinator = coordinator

    async def open(self) -> BrokerConnection:
        """Return the connection to the coordinator, opened if necessary. Raises ``ConnectionFailedError``."""
        async with self._opening:
            await self._close_discarded()
            if self._connection is None or not self._connection.usable:
                self._discard(self._connection)
                if self.coordinator is None:
                    raise ConnectionFailedError(f"group {self._group_id!r}", "its coordinator is not known yet")
                address = await self._address_of(self.coordinator)
                opening = self._connect(address.host, address.port)
                self._connection = await self._cluster.of_this_cluster(opening)
            return self._connection

    async def _address_of(self, coordinator: Broker) -> Broker:
        """Return the address from metadata: proxies rewrite it there, but not always in FindCoordinator."""
        known = self._cluster.metadata.brokers.get(coordinator.broker_id)
        if known is None or known.address != coordinator.address:  # unless the broker has moved
            with suppress(KafkaGroupsError):
                await self._cluster.fresh_metadata()  # once for many groups that are kept alive
        return self._cluster.metadata.brokers.get(coordinator.broker_id, coordinator)

    async def send(
        self, connection: BrokerConnection, api: Api, build: Callable[[int], Message], timeout: float
    ) -> Message:
        """Send one request on a connection that ``open`` returned.

        After a cancellation or an error the response may still arrive, so the connection is discarded.
        """
        version = connection.versions.choose(api)
        try:
            return await connection.send(api, version, build(version), timeout)
        except (KafkaGroupsError, asyncio.CancelledError):
            self._discard(connection)
            raise

    async def aclose(self) -> None:
        """Close the connection."""
        self._discard(self._connection)
        await self._close_discarded()

    def _discard(self, connection: BrokerConnection | None) -> None:
        if connection is not None and connection not in self._discarded:
            self._discarded.append(connection)
        if connection is self._connection:
            self._connection = None

    async def _close_discarded(self) -> None:
        while self._discarded:
            await self._discarded.pop().aclose()
