"""The records of deletion runs, as tests read them from the storage."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from airflow_kafka_groups.ledger.history import DeletionHistory, FoldedRuns
from airflow_kafka_groups.ledger.journal import Journal, record_of
from airflow_kafka_groups.ledger.run_records import RunRecord
from airflow_kafka_groups.observe.cluster_log import OF_RUNS, ClusterLog
from airflow_kafka_groups.storage.layout import StoragePath


def complete_history(base: StoragePath, cluster_id: str | None) -> DeletionHistory:
    """Read every run by the complete log, and by no table."""
    log, runs = ClusterLog(base, cluster_id), FoldedRuns()
    for entry in log.read():
        if entry.data["kind"] in OF_RUNS:
            runs.add(entry)
    return runs.history(log)


def history_before(journal: Journal) -> DeletionHistory:
    """Read every run in the journal of a cluster."""
    return complete_history(journal.folder.parent.parent.parent, unquote(journal.folder.parent.name))


def runs(storage: Path) -> list[RunRecord]:
    """Return every run in the journals below a storage folder, oldest first."""
    clusters = [unquote(folder.name) for folder in sorted(storage.glob("_journal/*"))]
    return [run for cluster_id in clusters for run in complete_history(storage, cluster_id).runs]


def records(storage: Path) -> list[dict[str, Any]]:
    """Return the record of every run in the journals below a storage folder, oldest first."""
    return [record_of(run) for run in runs(storage)]


def entries(storage: Path, *kinds: str) -> list[Path]:
    """Return the entries of these kinds in the logs below a storage folder, oldest first."""
    found = sorted(storage.glob("_journal/*/log/*.json"))
    return [path for path in found if json.loads(path.read_bytes())["kind"] in kinds]


def kill_before_outcome(storage: Path) -> None:
    """Leave what a worker leaves that dies after its request was sent, before its answer was recorded."""
    intent = entries(storage, "intent")[0]
    for path in [*storage.glob("_journal/*/signs.parquet"), *intent.parent.glob("*.json")]:
        if path.suffix == ".parquet" or path.name > intent.name:
            path.unlink()
