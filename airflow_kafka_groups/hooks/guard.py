"""The restrictions of a connection: read-only, and protected groups.

The client applies this policy before every request that changes a group, so that ``@task`` functions, shells and
operators are subject to the same rule.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.hooks.connection.settings import ConnectionSettings
from airflow_kafka_groups.hooks.time_limit import within_time_limit
from airflow_kafka_groups.kafka import AdminClient
from airflow_kafka_groups.kafka.cluster.config import ClientConfig, ConnectionPrint
from airflow_kafka_groups.kafka.cluster_admin import ClusterAdmin, LogRecord, OffsetsRetention, Span, SpanRecords
from airflow_kafka_groups.kafka.membership.brief import join_and_leave

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ConnectionPolicy:
    """The ``ChangePolicy`` of a connection.

    :param settings: the connection's settings; ``read_only`` and ``protected_groups`` are enforced here.
    """

    settings: ConnectionSettings

    def refusals(self, group_ids: Iterable[str]) -> dict[str, KafkaGroupsError]:
        """Return the protected groups, each with its error. Raises ``ConfigurationError`` when read-only."""
        self.settings.require_writable()
        settings = self.settings
        return {group_id: settings.protected_error(group_id) for group_id in group_ids if settings.protects(group_id)}


class GuardedAdminClient(AdminClient):
    """The ``AdminClient`` of a connection, under its policy.

    Topic ids and the offsets retention are requested through ``ClusterAdmin``.

    :param config: where and how to connect.
    :param settings: the connection's settings.
    """

    def __init__(self, config: ClientConfig, settings: ConnectionSettings) -> None:
        super().__init__(config, policy=ConnectionPolicy(settings))
        self.settings = settings
        self._cluster_admin = ClusterAdmin(config, self._calls.cluster.patience)
        self._config = config

    @cached_property
    def connection(self) -> ConnectionPrint:
        """The fingerprint of the connection."""
        return ConnectionPrint.of(self._config)

    async def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the ids of topics; see ``ClusterAdmin.topic_ids``."""
        return await self._cluster_admin.topic_ids(topics, await self.cluster_id())

    async def read_records(self, spans: Sequence[Span], keep: Callable[[LogRecord], T]) -> list[SpanRecords[T]]:
        """Read records, joining no group; see ``ClusterAdmin.read_records``."""
        return await self._cluster_admin.read_records(spans, keep)

    async def offsets_retention(self) -> OffsetsRetention:
        """Return how long the brokers keep the offsets of a group without members."""
        return await self._cluster_admin.offsets_retention(await self.cluster_id())

    async def join_and_leave(self, group_id: str, topics: Sequence[str], assignors: Sequence[str]) -> None:
        """Join a group without members as a consumer, and leave it at once; see ``membership.brief``.

        Raises ``ConfigurationError`` for a protected group and on a read-only connection, and ``KafkaGroupsError``.
        """
        for error in self._calls.refusals([group_id]).values():
            raise error
        await join_and_leave(self._calls.cluster, group_id, topics, assignors=assignors)


def run_with(client: GuardedAdminClient, function: Callable[[GuardedAdminClient], Awaitable[T]]) -> T:
    """Run an async function with a connected client, and close the client.

    :param client: the client, not connected yet.
    :param function: takes the client and returns an awaitable.

    Returns the function's result, and raises what it raises. Not for use inside a running event loop.
    """
    found: list[T] = []  # not the task's result: asyncio.run formats all of that, a second for 60,000 groups

    with within_time_limit() as begin:

        async def main() -> None:
            begin()
            async with client as admin:
                found.append(await function(admin))

        asyncio.run(main())
    return found[0]
