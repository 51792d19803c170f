"""The Airflow hook: a connection as an AdminClient, with synchronous methods for ``@task`` functions and operators.

In a ``@task``::

    hook = KafkaGroupsHook("my_cluster")
    offsets = hook.list_consumer_group_offsets(["orders", "billing"])
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError
from airflow_kafka_groups.hooks.airflow_lookups import HOOK_NAME, lookup_error
from airflow_kafka_groups.hooks.arguments import parse_object
from airflow_kafka_groups.hooks.cluster import ConnectedCluster
from airflow_kafka_groups.hooks.connection import CONN_TYPE, ConnectionSettings, read_connection
from airflow_kafka_groups.kafka.transport.security import pem_lines

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_kafka_groups.doctor.finding import Finding
    from airflow_kafka_groups.kafka.admin.results import GroupListings, GroupResults
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient, OffsetsRetention
    from airflow_kafka_groups.kafka.models import (
        Broker,
        CoordinatorType,
        GroupDescription,
        GroupOffsets,
        GroupState,
        GroupType,
        ListConsumerGroupOffsetsSpec,
    )

_SECRET_NAME = re.compile(r"passw|secret|passphrase|jaas|private.?key|key\.pem|oauthbearer\.config|token$", re.I)
"""Names of secret properties: librdkafka's, Java's and our own."""
_ALWAYS_SHOWN = frozenset({"brokers", "product", "groups", "offsets retention"})
"""What the Test button shows of the doctor's findings that nothing is wrong with."""
_ASSIGNED = re.compile(r"""=\s*["']?([^\s"',;]{5,})""")


class KafkaGroupsHook(ConnectedCluster, BaseHook):
    """The hook for a cluster's consumer groups.

    Connections of the official provider (type ``kafka``, extra = librdkafka properties) work, too.

    :param kafka_groups_conn_id: the connection. Default ``kafka_groups_default``.
    """

    conn_name_attr = "kafka_groups_conn_id"
    default_conn_name = "kafka_groups_default"
    conn_type = CONN_TYPE
    hook_name = HOOK_NAME

    def __init__(self, kafka_groups_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.kafka_groups_conn_id = kafka_groups_conn_id
        self._settings: ConnectionSettings | None = None

    def __repr__(self) -> str:
        return f"<KafkaGroupsHook {self.kafka_groups_conn_id!r}>"

    @property
    def settings(self) -> ConnectionSettings:
        """The settings of the connection, read once.

        Raises ``ConfigurationError`` if the connection does not exist or a field is invalid, and
        ``AirflowUnavailableError`` if Airflow cannot be asked for it.
        """
        if self._settings is None:
            conn_id: Any = self.kafka_groups_conn_id
            if not isinstance(conn_id, str) or not conn_id.strip():
                raise ConfigurationError(self.conn_name_attr, conn_id, "must be the id of an Airflow connection")
            try:
                connection = self.get_connection(conn_id)
            except (AirflowNotFoundException, PermissionError) as exc:
                raise lookup_error(conn_id, exc) from None
            _mask_secrets(connection)
            self._settings = read_connection(connection)
        return self._settings

    def write_spark_properties(self, path: Path) -> Path:
        """Write the connection as a properties file for the Spark jobs' ``--kafka-properties``; return its path.

        Only its owner can read it (mode 0600). It contains the connection's secrets: delete it after the job.

        :param path: a local file that must not exist yet.

        Raises ``ConfigurationError`` naming a setting that Kafka's Java client does not support.
        """
        from airflow_kafka_groups.spark.kafka.connection_files import write_spark_properties

        return write_spark_properties(self.settings, path)

    def write_source_settings(self, path: Path) -> Path:
        """Write the connection as a file for the option ``config.file`` of the Spark source; return its path.

        Only its owner can read it (mode 0600). It contains the connection's secrets: delete it after the job.

        :param path: a file that must not exist yet, local or in a folder that executors share.

        Raises ``ConfigurationError`` naming a setting that a file cannot contain, such as tokens from Python code.
        """
        from airflow_kafka_groups.spark.kafka.connection_files import write_source_settings

        return write_source_settings(self.settings, path)

    async def aget_conn(self) -> MaintenanceClient:
        """Build the same client without blocking the event loop, e.g. of a triggerer."""
        from asgiref.sync import sync_to_async

        return await sync_to_async(self.get_conn)()

    @asynccontextmanager
    async def async_client(self) -> AsyncIterator[MaintenanceClient]:
        """Provide a connected ``AdminClient``, and close it afterwards."""
        async with self.get_conn() as admin:
            yield admin

    def list_groups(
        self,
        *,
        states: Iterable[GroupState | str] = (),
        types: Iterable[GroupType | str] = (),
        group_id_pattern: str | None = None,
    ) -> GroupListings:
        """List groups of all brokers.

        ``.errors`` has brokers without answer and partitions of ``__consumer_offsets`` that moved or have no leader.
        """
        return self.run(lambda admin: admin.list_groups(states=states, types=types, group_id_pattern=group_id_pattern))

    list_consumer_groups = list_groups  # as other clients of Kafka call it

    def find_coordinators(
        self, keys: Iterable[str], *, key_type: CoordinatorType | None = None
    ) -> GroupResults[Broker]:
        """Find the coordinator of each key. Keys that fail are in ``.failed``."""
        from airflow_kafka_groups.kafka.models import CoordinatorType

        kind = CoordinatorType.GROUP if key_type is None else key_type
        return self.run(lambda admin: admin.find_coordinators(keys, key_type=kind))

    def describe_consumer_groups(self, group_ids: Iterable[str]) -> GroupResults[GroupDescription]:
        """Describe groups. A group that does not exist has the state ``Dead``; groups that fail are in ``.failed``."""
        return self.run(lambda admin: admin.describe_consumer_groups(group_ids))

    def list_consumer_group_offsets(
        self, groups: Iterable[str] | Mapping[str, ListConsumerGroupOffsetsSpec], *, require_stable: bool = False
    ) -> GroupResults[GroupOffsets]:
        """List the committed offsets of many groups. Groups that fail are in ``.failed``."""
        wanted = [groups] if isinstance(groups, str) else groups
        return self.run(lambda admin: admin.list_consumer_group_offsets(wanted, require_stable=require_stable))

    def delete_consumer_groups(self, group_ids: Iterable[str]) -> GroupResults[None]:
        """Delete groups without a plan or backup. Groups that fail or are protected are in ``.failed``.

        Raises ``ConfigurationError`` on a read-only connection.
        """
        return self.run(lambda admin: admin.delete_consumer_groups(group_ids))

    def offsets_retention(self) -> OffsetsRetention:
        """Return how long the brokers keep the offsets of a group without members (``offsets.retention.minutes``).

        It requires DescribeConfigs on the cluster. Silent brokers are in ``.errors``; ``.minutes`` is then ``None``.
        """
        return self.run(lambda admin: admin.offsets_retention())

    def test_connection(self) -> tuple[bool, str]:
        """Connect and authenticate; return a description of the cluster and of this user's rights, or what is wrong.

        Nothing is changed: the brokers are asked for the rights.
        """
        from airflow.sdk.exceptions import AirflowException

        from airflow_kafka_groups.doctor.cluster import examine_connection
        from airflow_kafka_groups.doctor.finding import Report
        from airflow_kafka_groups.hooks.floors import connection_floors
        from airflow_kafka_groups.judge.policy.plan_policy import WEEK_SECONDS

        report = Report()
        try:
            connection_floors(settings := self.settings)
            lease, protected = settings.lease_group_id, settings.protected_groups
            self.run(lambda it: examine_connection(it, lease, protected, WEEK_SECONDS, report, watch_seconds=None))
            return True, _as_message(report.findings, settings.read_only)
        except KafkaGroupsError as exc:
            return False, str(exc)
        except (AirflowException, OSError, ImportError) as exc:
            return False, f"{type(exc).__name__}: {exc}"


def _as_message(findings: Iterable[Finding], read_only: bool) -> str:
    shown = [each for each in findings if each.check in _ALWAYS_SHOWN or each.status != "ok"]
    said = [each.text if each.check in _ALWAYS_SHOWN else f"{each.check.capitalize()}: {each.text}" for each in shown]
    remedies = ["The command doctor has a remedy for each."] if any(each.remedy for each in shown) else []
    return " ".join([*said, *remedies, *(["This connection is read-only."] if read_only else [])])


def _mask_secrets(connection: Any) -> None:
    """Register the connection's secrets with Airflow's log masking, including nested and PEM ones."""
    from airflow.sdk.log import mask_secret

    # Not Connection.extra_dejson: for invalid JSON it logs a traceback, which may contain the extra.
    extra = parse_object(connection.extra or "") or {}
    mask_secret(extra)  # by key name; values under other names follow
    properties = extra.get("properties")
    properties = parse_object(properties) if isinstance(properties, str) else properties
    for holder in (extra, properties if isinstance(properties, Mapping) else {}):
        for name, value in holder.items():
            # The text of a certificate may have its key in it.
            if isinstance(value, str) and value and (_SECRET_NAME.search(name) or "PRIVATE KEY" in value):
                mask_secret(value)
                # Also in parts: logs show keys line by line, and option values of a JAAS string without the rest.
                lines = (*value.splitlines()[1:-1], *pem_lines(value).splitlines()[1:-1])
                for part in (*lines, *_ASSIGNED.findall(value)):
                    mask_secret(part)
