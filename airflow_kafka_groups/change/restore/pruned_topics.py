"""Which topics of a partial backup were pruned. The others were kept, such as those that somebody used again."""

from __future__ import annotations

import logging
from collections.abc import Collection

from airflow_kafka_groups.change.backup.file import Backup
from airflow_kafka_groups.exceptions import MaintenanceError
from airflow_kafka_groups.ledger.journal.journal import Journal
from airflow_kafka_groups.storage.ids import time_of
from airflow_kafka_groups.storage.layout import Layout

_logger = logging.getLogger(__name__)


def pruned_names(layout: Layout, backup: Backup) -> Collection[str] | None:
    """Return the names of the topics that the plan's runs deleted or may have deleted, as the journal has them.

    ``None`` if the journal knows no run of the plan or cannot be read: who restores after an accident may have lost it.
    """
    try:
        journal = Journal(layout.base, backup.kafka_cluster_id)
        runs = journal.of_plan(backup.plan_id, journal.begun_since(time_of(backup.plan_id)))
    except MaintenanceError as error:
        _logger.warning("Which topics were pruned is not known, so all of the backup are restored: %s", error)
        return None
    return {name for run in runs for name in run.possibly_deleted()} if runs else None
