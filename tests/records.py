"""The records of deletion runs, as tests read them from the storage."""

from pathlib import Path
from typing import Any
from urllib.parse import unquote

from airflow_kafka_groups.ledger.journal.history import RunRecord
from airflow_kafka_groups.ledger.journal.journal import Journal, record_of


def runs(storage: Path) -> list[RunRecord]:
    """Return every run in the journals below a storage folder, oldest first."""
    clusters = [unquote(folder.name) for folder in sorted(storage.glob("_journal/*"))]
    return [run for cluster_id in clusters for run in Journal(storage, cluster_id).read().runs]


def records(storage: Path) -> list[dict[str, Any]]:
    """Return the record of every run in the journals below a storage folder, oldest first."""
    return [record_of(run) for run in runs(storage)]
