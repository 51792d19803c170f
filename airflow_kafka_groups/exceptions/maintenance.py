"""Errors of snapshots, plans, backups, deletions and their files."""

from __future__ import annotations

from datetime import datetime

from airflow_kafka_groups.exceptions.client import KafkaGroupsError


class MaintenanceError(KafkaGroupsError):
    """The base class of errors of snapshots, plans, backups and deletions."""


class SnapshotError(MaintenanceError):
    """A snapshot is missing, empty or incomplete."""


class PlanError(MaintenanceError):
    """A plan cannot be made or must not be applied."""


class QuietTimeError(PlanError):
    """The quiet hours or holidays of a policy forbid a deletion now.

    :param message: what forbids it.
    :param until: when they end; ``None``: the plan will have expired.
    """

    def __init__(self, message: str, until: datetime | None) -> None:
        super().__init__(message)
        self.until = until


class PolicyError(MaintenanceError):
    """A policy file is missing, or says something that cannot be meant; the message names file, line and remedy."""


class BackupError(MaintenanceError):
    """A backup is missing or not as it should be."""


class JournalError(MaintenanceError):
    """The journal of deletions is damaged or cannot be continued."""


class StorageError(MaintenanceError):
    """A file could not be read, written or listed; the message names the path."""


class FileExistsAlreadyError(StorageError):
    """The file that was to be created exists, with other content."""
