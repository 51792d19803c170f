"""Records of deletion runs: views of the journal.

docs/formats.md shows a record. It is the last entry of a run; that of a run without an end is assembled from its other
entries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from airflow_kafka_groups.exceptions import JournalError
from airflow_kafka_groups.ledger.journal.entries import outcomes_of
from airflow_kafka_groups.ledger.journal.history import DeletionHistory, RunRecord
from airflow_kafka_groups.ledger.journal.journal import Journal
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Outcome
from airflow_kafka_groups.observe.cluster_log import read_entry
from airflow_kafka_groups.storage.access import unless_damaged
from airflow_kafka_groups.storage.layout import Layout, StoragePath

NO_END = "the run has begun and its end is not recorded: it was interrupted, or it is still running"


def read_history(layout: Layout, kafka_cluster_id: str | None) -> DeletionHistory:
    """Read the history of deletions on a cluster.

    Raises ``JournalError`` and ``StorageError``.
    """
    return Journal(layout.base, kafka_cluster_id).current()


def records_of_plan(layout: Layout, kafka_cluster_id: str | None, plan_id: str) -> dict[str, dict[str, Any]]:
    """Return the records of every run of a plan, by their paths, oldest first. Raises what ``read_history`` raises."""
    return {run.path: record_of(run) for run in read_history(layout, kafka_cluster_id).of_plan(plan_id)}


def record_of(run: RunRecord) -> dict[str, Any]:
    """Return the record of a run."""
    outcomes = list(run.outcomes.values())
    if run.ended is not None:
        return {**run.ended, "outcomes": [item.to_json() for item in outcomes]}
    counts = Counter(item.outcome for item in outcomes)
    times = [*run.intents.values(), *run.decided_at.values()]
    return {
        **run.begun,
        "finished_at": max(times).isoformat() if times else run.begun["at"],
        "seconds": None,
        "counts": {outcome.value: counts.get(outcome, 0) for outcome in Outcome},
        "kept_reasons": dict(Counter(item.code for item in outcomes if item.outcome is Outcome.KEPT)),
        "warnings": [NO_END],
        "verification": None,
        "outcomes": [item.to_json() for item in outcomes],
    }


def read_end(path: StoragePath) -> tuple[Mapping[str, Any], list[GroupOutcome]]:
    """Read the last entry of a run: its content, and all outcomes.

    Raises ``JournalError`` when it is missing or damaged, and ``StorageError``.
    """
    entry = read_entry(path, named=True)
    if entry is None:
        raise JournalError(f"the record of the deletion is missing: there is no {path}")
    with unless_damaged(JournalError, f"the record {path}"):
        return entry.data, list(outcomes_of(entry.data["outcomes"]))
