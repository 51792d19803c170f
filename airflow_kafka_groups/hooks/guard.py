"""The restrictions of a connection: read-only, and protected groups.

The client applies this policy before every request that changes a group, so that ``@task`` functions, shells and
operators are subject to the same rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.hooks.connection.settings import ConnectionSettings
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient


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


class GuardedAdminClient(MaintenanceClient):
    """The client of a connection, under its policy.

    :param config: where and how to connect.
    :param settings: the connection's settings.
    """

    def __init__(self, config: ClientConfig, settings: ConnectionSettings) -> None:
        super().__init__(config, ConnectionPolicy(settings))
        self.settings = settings
