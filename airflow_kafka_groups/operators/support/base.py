"""What all operators share: the connection and its hook."""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_kafka_groups.hooks.argument_validation import Argument, DeclaredArguments
from airflow_kafka_groups.hooks.arguments import optional, read_storage_path, read_text
from airflow_kafka_groups.hooks.retries import set_retry_policy

if TYPE_CHECKING:
    from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook
    from airflow_kafka_groups.maintenance.storage import Layout

PROGRESS_SECONDS = 5.0
_BAR = 20
FIRST_FAILURES = 20
"""How many failures go to XCom: enough to see what is wrong, small whatever the number of groups."""


class KafkaGroupsOperator(DeclaredArguments, BaseOperator):
    """Be the base of the operators that talk to a cluster.

    :param kafka_groups_conn_id: the connection, default ``kafka_groups_default`` (templated).
    """

    ui_color = "#d4e6f0"

    kafka_groups_conn_id = Argument(read_text)

    def __init__(self, *, kafka_groups_conn_id: str = "kafka_groups_default", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kafka_groups_conn_id = kafka_groups_conn_id
        set_retry_policy(self)

    @cached_property
    def hook(self) -> KafkaGroupsHook:
        """Give the hook of the connection; first used after the connection's id is rendered."""
        from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook

        return KafkaGroupsHook(self.kafka_groups_conn_id)


class StoredOperator(KafkaGroupsOperator):
    """Be the base of the operators that keep files.

    :param storage_path: folder above all clusters: an absolute path or a URL (templated).
    :param cluster: name of the cluster's folder; default: the connection's id (templated).
    """

    storage_path = Argument(read_storage_path)
    cluster = Argument(optional(read_text))

    def __init__(self, *, storage_path: str, cluster: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.storage_path = storage_path
        self.cluster = cluster
        self._progress_logged_at = 0.0

    def layout(self) -> Layout:
        """Give the paths of the cluster's files. Raises ``ConfigurationError`` for a path or name that cannot be."""
        from airflow_kafka_groups.hooks.storage import open_layout

        return open_layout(self.storage_path, self.cluster, self.kafka_groups_conn_id)

    @property
    def cluster_name(self) -> str:
        """Name the cluster to people and in metrics: its folder, or the connection's id."""
        return str(self.cluster or self.kafka_groups_conn_id)

    def log_progress(self, stage: str, done: int, total: int) -> None:
        """Log how far a stage is: at its end, and every few seconds before."""
        now = time.monotonic()
        if done >= total or now - self._progress_logged_at >= PROGRESS_SECONDS:
            self._progress_logged_at = now
            filled = _BAR * done // total if total else _BAR
            bar = "#" * filled + "-" * (_BAR - filled)
            self.log.info("%-8s [%s] %3d %%: %d of %d", stage, bar, 100 * done // total if total else 100, done, total)


def first_failures(failed: dict[str, Any]) -> dict[str, str]:
    """Give the first few failures with their reasons, ordered by group."""
    return {group_id: str(failed[group_id]) for group_id in sorted(failed)[:FIRST_FAILURES]}
