"""Bootstrap: the cluster's metadata from the first server, and connections that are opened ahead meanwhile.

Most bootstrap servers are brokers that a call needs anyway. Connections to some of them are opened side by side while
the first server answers: this saves two round trips in every client's first call.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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


Openings = dict[Address, "asyncio.Task[BrokerConnection]"]
"""Connections by their server, open or being opened."""


async def bootstrap(
    config: ClientConfig,
    connect: Connector,
    ask: Callable[[BrokerConnection], Awaitable[ClusterMetadata]],
    openings: Openings,
) -> ClusterMetadata:
    """Ask one server after the other; after ``_NEXT_SERVER_AFTER`` seconds the next one is asked as well.

    An unresponsive server does not delay the call while another one answers. Raises ``NoBrokerAvailableError`` with the
    error of each server when none answers, or at once an error that every broker would return.

    :param ask: requests the metadata on a connection.
    :param openings: gets the connections that were begun; the caller closes them.
    """
    servers = [*dict.fromkeys(config.bootstrap_servers)]
    servers = random.sample(servers, len(servers))

    def open_server(address: Address) -> asyncio.Task[BrokerConnection]:
        if address not in openings:
            openings[address] = asyncio.create_task(
                connect(*address), name="bootstrap connection to {}:{}".format(*address)
            )
        return openings[address]

    def connect_ahead() -> None:
        for address in servers[:_CONNECTED_TO_AT_ONCE]:
            open_server(address)

    async def ask_server(address: Address) -> ClusterMetadata:
        connection = await open_server(address)
        if config.security.uses_sasl:
            # Only after one server has accepted the credentials: a wrong password is tried once, not three times.
            connect_ahead()
        try:
            return await ask(connection)
        except BaseException:
            del openings[address]
            await connection.aclose()
            raise

    if not config.security.uses_sasl:
        connect_ahead()
    failures: list[str] = []
    if (metadata := await _first_answer(servers, ask_server, failures)) is not None:
        return metadata
    problem = f"no Kafka broker could be used: {'; '.join(failures)}"
    remedy = f"whether their listeners take the security protocol {config.security.protocol}"
    raise NoBrokerAvailableError(config.servers, f"{problem}. Check the bootstrap servers, and {remedy}")


async def _first_answer(
    servers: Sequence[Address], ask: Callable[[Address], Coroutine[Any, Any, ClusterMetadata]], failures: list[str]
) -> ClusterMetadata | None:
    waiting = [*servers]
    tasks: list[asyncio.Task[ClusterMetadata]] = []
    asked: set[asyncio.Task[ClusterMetadata]] = set()
    try:
        while waiting or asked:
            if waiting:
                tasks.append(asyncio.create_task(ask(waiting.pop(0)), name="bootstrap"))
                asked.add(tasks[-1])
            patience = _NEXT_SERVER_AFTER if waiting else None
            done, asked = await asyncio.wait(asked, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                try:
                    return task.result()
                except (AuthenticationFailedError, ConfigurationError):
                    raise
                except KafkaGroupsError as error:
                    failures.append(str(error))
        return None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def close_all(openings: Iterable[asyncio.Task[BrokerConnection]]) -> None:
    """Cancel the attempts to connect, and close the connections."""
    openings = list(openings)
    for opening in openings:
        opening.cancel()
    opened = await asyncio.gather(*openings, return_exceptions=True)
    connections = {each for each in opened if not isinstance(each, BaseException)}
    await asyncio.gather(*(connection.aclose() for connection in connections))
