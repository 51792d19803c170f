"""An AdminClient that keeps what its connection forbids: no change on a read-only one, none to a protected group.

The guard sits in the client, not in the operators, so that a ``@task`` function, a shell and an operator are held by
the same rule.
"""

from __future__ import annotations

from collections.abc import Iterable

from airflow_kafka_groups.admin import AdminClient
from airflow_kafka_groups.admin.arguments import group_ids_of
from airflow_kafka_groups.admin.results import GroupResult, GroupResults
from airflow_kafka_groups.cluster.config import ClientConfig
from airflow_kafka_groups.hooks.settings import ConnectionSettings
from airflow_kafka_groups.transport.base import Connector


class GuardedAdminClient(AdminClient):
    """Refuse changes that the connection forbids; do everything else as ``AdminClient`` does.

    :param config: where and how to connect.
    :param settings: what the connection says; ``read_only`` and ``protected_groups`` are held here.
    :param connect: opens a connection; a test passes its own. Default: the real one.
    """

    def __init__(self, config: ClientConfig, settings: ConnectionSettings, connect: Connector | None = None) -> None:
        super().__init__(config, connect)
        self._settings = settings

    async def delete_consumer_groups(self, group_ids: Iterable[str]) -> GroupResults[None]:
        """Delete groups. Protected ones fail one by one; on a read-only connection nothing is sent and it raises."""
        self._settings.require_writable()
        wanted = group_ids_of(group_ids)
        refused: dict[str, GroupResult[None]] = {
            group_id: GroupResult(group_id, error=self._settings.protected_error(group_id))
            for group_id in wanted
            if self._settings.protects(group_id)
        }
        done = await super().delete_consumer_groups(group_id for group_id in wanted if group_id not in refused)
        return GroupResults({**done, **refused}[group_id] for group_id in wanted)
