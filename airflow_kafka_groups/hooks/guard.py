"""An AdminClient that keeps what its connection forbids: no change on a read-only one, none to a protected group.

The guard sits in the client, not in the operators, so that a ``@task`` function, a shell and an operator are held by
the same rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from airflow_kafka_groups.admin import AdminClient
from airflow_kafka_groups.admin.client.arguments import group_ids_of
from airflow_kafka_groups.admin.results import GroupResult, GroupResults
from airflow_kafka_groups.cluster.config import ClientConfig
from airflow_kafka_groups.cluster_admin.client import ClusterAdmin
from airflow_kafka_groups.cluster_admin.offsets_retention import OffsetsRetention
from airflow_kafka_groups.contracts.group_types import ELIGIBLE_TYPES
from airflow_kafka_groups.hooks.settings import ConnectionSettings
from airflow_kafka_groups.models import GroupOffsets, GroupType, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.transport.base import Connector


class GuardedAdminClient(AdminClient):
    """The connection's ``AdminClient``: it refuses changes that the connection forbids.

    What is not about groups (topic ids, the offsets retention) it asks through ``ClusterAdmin``.

    :param config: where and how to connect.
    :param settings: what the connection says; ``read_only`` and ``protected_groups`` are held here.
    :param connect: opens a connection; a test passes its own. Default: the real one.
    """

    def __init__(self, config: ClientConfig, settings: ConnectionSettings, connect: Connector | None = None) -> None:
        super().__init__(config, connect)
        self._settings = settings
        self._cluster_admin = ClusterAdmin(config)

    async def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the ids of topics; see ``ClusterAdmin.topic_ids``."""
        return await self._cluster_admin.topic_ids(topics)

    async def offsets_retention(self) -> OffsetsRetention:
        """Return how long the brokers keep the offsets of a group without members."""
        return await self._cluster_admin.offsets_retention()

    async def delete_consumer_groups(
        self,
        group_ids: Iterable[str],
        *,
        offsets: Mapping[str, GroupOffsets] | None = None,
        types: Iterable[GroupType | str] = ELIGIBLE_TYPES,
    ) -> GroupResults[None]:
        """Delete groups. Protected ones fail one by one; on a read-only connection nothing is sent and it raises."""
        wanted = group_ids_of(group_ids)
        refused = self._refused(wanted)
        allowed = (id_ for id_ in wanted if id_ not in refused)
        done = await super().delete_consumer_groups(allowed, offsets=offsets, types=types)
        return GroupResults({**done, **refused}[group_id] for group_id in wanted)

    async def alter_consumer_group_offsets(
        self, offsets: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]]
    ) -> GroupResults[None]:
        """Set committed offsets. Protected groups fail one by one; a read-only connection raises."""
        refused = self._refused(group_ids_of(offsets, "offsets"))
        allowed = {group_id: of_group for group_id, of_group in offsets.items() if group_id not in refused}
        done = await super().alter_consumer_group_offsets(allowed)
        return GroupResults({**done, **refused}[group_id] for group_id in offsets)

    async def delete_consumer_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Forget committed offsets. Raises for a protected group and on a read-only connection."""
        for result in self._refused([group_id]).values():
            result.unwrap()
        await super().delete_consumer_group_offsets(group_id, partitions)

    def _refused(self, group_ids: list[str]) -> dict[str, GroupResult[None]]:
        self._settings.require_writable()
        return {
            group_id: GroupResult(group_id, error=self._settings.protected_error(group_id))
            for group_id in group_ids
            if self._settings.protects(group_id)
        }
