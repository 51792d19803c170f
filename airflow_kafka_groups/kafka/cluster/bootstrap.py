"""Bootstrap: the cluster's metadata from the first server, and connections that are opened ahead meanwhile.

Most bootstrap servers are brokers that a call needs anyway. Connections to some of them are opened side by side while
the first server answers: this saves two round trips in every client's first call.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from airflow_kafka_groups.exceptions import (
    AuthenticationFailedError,
    ConfigurationError,
    ConnectionFailedError,
    KafkaGroupsError,
    NoBrokerAvailableError,
)
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.cluster.products import known_id
from airflow_kafka_groups.kafka.cluster.routing import OFFSETS_TOPIC, OffsetsTopic
from airflow_kafka_groups.kafka.models import Broker, BrokerId, TopicPartition
from airflow_kafka_groups.kafka.protocol.answers import MetadataAnswer
from airflow_kafka_groups.kafka.transport.connection import BrokerConnection, Connector


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """The cluster at one moment."""

    cluster_id: str | None = None
    brokers: Mapping[BrokerId, Broker] = field(default_factory=dict)
    offsets_topic: OffsetsTopic | None = None

    @classmethod
    def from_answer(cls, answer: MetadataAnswer) -> ClusterMetadata:
        """Convert the answer to a Metadata request for ``__consumer_offsets``.

        The topic may not exist yet, or may be hidden from this user: then groups cannot be routed by hash.
        """
        count = answer.partition_counts.get(OFFSETS_TOPIC, 0)
        leaders = tuple(answer.leaders.get(TopicPartition(OFFSETS_TOPIC, partition)) for partition in range(count))
        return cls(
            answer.cluster_id,
            {broker.broker_id: broker for broker in answer.brokers},
            OffsetsTopic(leaders) if count else None,
        )

    def require_same_cluster(self, cluster_id: str | None) -> None:
        """Raise ``ConnectionFailedError`` for an answer of another cluster, as far as both ids are known."""
        here, there = known_id(self.cluster_id), known_id(cluster_id)
        if here is not None and there is not None and here != there:
            raise ConnectionFailedError(
                "cluster",
                f"an address of cluster {here} leads to cluster {there} now: nothing is asked there. Check the "
                "bootstrap servers, the brokers' advertised listeners and the DNS; then run it again",
            )

    def leaderless_partitions(self) -> list[TopicPartition]:
        """Return the partitions of ``__consumer_offsets`` without a live leader: no broker lists their groups.

        There are none where the topic does not exist yet or is hidden from this user.
        """
        leaders = () if self.offsets_topic is None else self.offsets_topic.leaders
        return [
            TopicPartition(OFFSETS_TOPIC, partition)
            for partition, leader in enumerate(leaders)
            if leader is None or leader not in self.brokers
        ]


Address = tuple[str, int]

_NEXT_SERVER_AFTER = 0.5
"""Seconds after which the next bootstrap server is asked as well."""

_CONNECTED_TO_AT_ONCE = 3
"""At most so many connections are opened ahead: a short call does not need one to each of a dozen servers."""


class Bootstrap:
    """One bootstrap. Close it afterwards, which closes the connections that were not taken.

    :param ask: requests the metadata on a connection.
    """

    def __init__(
        self, config: ClientConfig, connect: Connector, ask: Callable[[BrokerConnection], Awaitable[ClusterMetadata]]
    ) -> None:
        servers = [*dict.fromkeys(config.bootstrap_servers)]
        self._order = random.sample(servers, len(servers))
        self._servers = config.servers
        self._protocol = config.security.protocol
        self._logs_in = config.security.uses_sasl
        self._connect = connect
        self._ask = ask
        self._openings: dict[Address, asyncio.Task[BrokerConnection]] = {}

    async def metadata(self) -> ClusterMetadata:
        """Ask one server after the other; after ``_NEXT_SERVER_AFTER`` seconds the next one is asked as well.

        An unresponsive server does not delay the call while another one answers. Raises ``NoBrokerAvailableError`` with
        the error of each server when none answers, or at once an error that every broker would return.
        """
        if not self._logs_in:
            self._connect_ahead()
        waiting = self._order.copy()
        tasks: list[asyncio.Task[ClusterMetadata]] = []
        asked: set[asyncio.Task[ClusterMetadata]] = set()
        failures = []
        try:
            while waiting or asked:
                if waiting:
                    host, port = waiting.pop(0)
                    task = asyncio.create_task(self._ask_server((host, port)), name=f"bootstrap from {host}:{port}")
                    tasks.append(task)
                    asked.add(task)
                patience = _NEXT_SERVER_AFTER if waiting else None
                done, asked = await asyncio.wait(asked, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    try:
                        return task.result()
                    except (AuthenticationFailedError, ConfigurationError):
                        raise
                    except KafkaGroupsError as error:
                        failures.append(str(error))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        remedy = f"Check the bootstrap servers, and whether their listeners take the security protocol {self._protocol}"
        raise NoBrokerAvailableError(self._servers, f"no Kafka broker could be used: {'; '.join(failures)}. {remedy}")

    def take(self, address: Address) -> asyncio.Task[BrokerConnection] | None:
        """Hand over the connection to a server, open or being opened; ``None`` if there is none, or if it failed."""
        opening = self._openings.get(address)
        if opening is None or (opening.done() and (opening.cancelled() or opening.exception())):
            return None
        return self._openings.pop(address)

    async def aclose(self) -> None:
        """Cancel the attempts to connect, and close the connections."""
        openings = list(self._openings.values())
        self._openings.clear()
        for opening in openings:
            opening.cancel()
        opened = await asyncio.gather(*openings, return_exceptions=True)
        await asyncio.gather(*(each.aclose() for each in opened if not isinstance(each, BaseException)))

    async def _ask_server(self, address: Address) -> ClusterMetadata:
        opening = self._opening(address)
        connection = await opening
        if self._logs_in:
            # Only after one server has accepted the credentials: a wrong password is tried once, not three times.
            self._connect_ahead()
        answered = False
        try:
            metadata = await self._ask(connection)
            answered = True
            return metadata
        finally:
            if not answered:
                del self._openings[address]
                await connection.aclose()

    def _connect_ahead(self) -> None:
        for address in self._order[:_CONNECTED_TO_AT_ONCE]:
            self._opening(address)

    def _opening(self, address: Address) -> asyncio.Task[BrokerConnection]:
        opening = self._openings.get(address)
        if opening is None:
            host, port = address
            opening = asyncio.create_task(self._connect(host, port), name=f"bootstrap connection to {host}:{port}")
            self._openings[address] = opening
        return opening
