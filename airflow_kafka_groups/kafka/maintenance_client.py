"""``MaintenanceClient``: the ``AdminClient`` with what plans, backups, restores and migrations need beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TypeVar

from airflow_kafka_groups.kafka.admin.client.admin_client import AdminClient
from airflow_kafka_groups.kafka.admin.client.calls import ChangePolicy
from airflow_kafka_groups.kafka.cluster.config import ClientConfig, ConnectionPrint
from airflow_kafka_groups.kafka.cluster_admin import ClusterAdmin, LogRecord, OffsetsRetention, Span, SpanRecords
from airflow_kafka_groups.kafka.membership.brief import join_and_leave

T = TypeVar("T")


class MaintenanceClient(AdminClient):
    """An ``AdminClient`` that also asks about topics and brokers, through ``ClusterAdmin``, and joins groups.

    :param config: where and how to connect.
    :param policy: which groups may not be changed. Default: all may.
    """

    def __init__(self, config: ClientConfig, policy: ChangePolicy | None = None) -> None:
        super().__init__(config, policy=policy)
        self._cluster_admin = ClusterAdmin(config, self._calls.cluster.patience)
        self._config, self.policy = config, policy

    @cached_property
    def connection(self) -> ConnectionPrint:
        """The fingerprint of the connection."""
        return ConnectionPrint.of(self._config)

    async def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the ids of topics by name, where they have one; see ``ClusterAdmin.topic_ids``.

        A topic that was recreated has another. Raises ``UnsupportedByClientError`` when this client cannot learn them.
        """
        return await self._cluster_admin.topic_ids(topics, await self.cluster_id())

    async def read_records(self, spans: Sequence[Span], keep: Callable[[LogRecord], T]) -> list[SpanRecords[T]]:
        """Read records, joining no group; see ``ClusterAdmin.read_records``."""
        return await self._cluster_admin.read_records(spans, keep)

    async def offsets_retention(self) -> OffsetsRetention:
        """Return how long the brokers keep the offsets of a group without members."""
        return await self._cluster_admin.offsets_retention(await self.cluster_id())

    async def join_and_leave(self, group_id: str, topics: Sequence[str], assignors: Sequence[str]) -> None:
        """Join a group without members as a consumer, and leave it at once; see ``membership.brief``.

        Raises the policy's error for a group that may not be changed, and ``KafkaGroupsError``.
        """
        for error in self._calls.refusals([group_id]).values():
            raise error
        await join_and_leave(self._calls.cluster, group_id, topics, assignors=assignors)
