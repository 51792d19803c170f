"""The journal of a deletion by name before its own run begins: who is found in use is recorded as soon as it is seen.

Between the first look at named groups and the run that deletes them, they are watched and backed up. A process that
dies meanwhile must not forget who was in use: the next try may look at a moment when the group is Empty. What was seen
is a run of its own in the journal, which deletes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow_kafka_groups.change.deletion.request import DeletionRequest
from airflow_kafka_groups.ledger.audit import read_history
from airflow_kafka_groups.ledger.journal.history import shows_life
from airflow_kafka_groups.ledger.journal.journal import Journal, RunJournal
from airflow_kafka_groups.ledger.outcomes import DeletionReport, GroupOutcome
from airflow_kafka_groups.storage.ids import new_id
from airflow_kafka_groups.storage.layout import Layout


class FirstLook:
    """The record of the first look; there is none while no group is found in use."""

    def __init__(self, layout: Layout, request: DeletionRequest, kafka_cluster_id: str | None) -> None:
        self._layout = layout
        self._request = request
        self._kafka_cluster_id = kafka_cluster_id
        self._started_at = request.now()
        self._journal: RunJournal | None = None
        self._header: dict[str, Any] = {}
        self._seen: list[GroupOutcome] = []

    def note(self, outcomes: Iterable[GroupOutcome]) -> None:
        """Record the groups that were found in use, or gone; durable when this returns.

        Raises ``StorageError`` or ``JournalError``: then nothing may be deleted.
        """
        alive = [outcome for outcome in outcomes if shows_life(outcome)]
        if not alive:
            return
        self._seen += alive
        self._journal = self._journal or self._begin()
        self._journal.conclude(alive, self._request.now())

    def end(self) -> None:
        """Record the end of the look. Raises ``StorageError`` or ``JournalError``."""
        if self._journal is None:
            return
        finished_at = self._request.now()
        report = DeletionReport(
            plan_id=None,
            plan_digest=None,
            cluster=self._layout.cluster,
            dry_run=True,
            started_at=self._started_at,
            finished_at=finished_at,
            outcomes=tuple(self._seen),
        )
        seconds = round((finished_at - self._started_at).total_seconds(), 3)
        record = {**self._header, **report.summary(), "seconds": seconds, "verification": None}
        self._journal.end(self._seen, record, finished_at)

    def _begin(self) -> RunJournal:
        self._header = {
            "run_id": new_id(self._started_at),
            "request_id": self._request.request_id,
            "plan_id": None,
            "cluster": self._layout.cluster,
            "dry_run": True,  # it sends nothing, so it stops no other run
            "started_at": self._started_at.isoformat(),
            "actor": dict(self._request.actor),
        }
        history = read_history(self._layout, self._kafka_cluster_id)
        journal = Journal(self._layout.base, self._kafka_cluster_id)
        return journal.begin(self._header, self._request.now(), after=history)
