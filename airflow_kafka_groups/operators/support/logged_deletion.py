"""The observer of a deletion in a task: what happens goes to the task's log, and a killed task stops it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from airflow_kafka_groups.change.deletion.request import DeletionObserver
from airflow_kafka_groups.ledger.outcomes import GroupOutcome
from airflow_kafka_groups.operators.support.base import FIRST_FAILURES, StoredOperator
from airflow_kafka_groups.shown import one_line

_LOGGED_AT_ONCE = 100


class LoggedDeletion(DeletionObserver):
    """Logs the outcomes of each chunk, and all of them if they cannot be recorded.

    :param operator: the operator whose task deletes.
    :param why_stop: returns why the deletion is to stop, or ``None``.
    :param count: takes the counts of the outcomes, and whether nothing was changed.
    """

    def __init__(
        self,
        operator: StoredOperator,
        why_stop: Callable[[], str | None],
        count: Callable[[Mapping[str, int], bool], None],
    ) -> None:
        self._log, self._log_progress = operator.log, operator.log_progress
        self._why_stop, self._count = why_stop, count

    def progress(self, stage: str, done: int, total: int) -> None:
        """Log how far a stage is."""
        self._log_progress(stage, done, total)

    def concluded(self, outcomes: Sequence[GroupOutcome]) -> None:
        """Log the counts of a chunk, and its first groups with their reasons; the record has them all."""
        counts = Counter(item.outcome.value for item in outcomes)
        self._log.info("%s", ", ".join(f"{name} {count}" for name, count in counts.items()))
        for item in outcomes[:FIRST_FAILURES]:
            self._log.info("%s: %s (%s)", item.outcome.value, one_line(item.group_id), item.reason)

    def warning(self, text: str) -> None:
        """Log what went wrong with the run."""
        self._log.warning("%s", text)

    def not_recorded(self, record: Mapping[str, Any]) -> None:
        """Log and count a record that the storage refused: what was deleted must be known."""
        outcomes = record["outcomes"]
        self._log.error("The record could not be written: %s", json.dumps({**record, "outcomes": len(outcomes)}))
        for start in range(0, len(outcomes), _LOGGED_AT_ONCE):
            self._log.error("Not recorded: %s", json.dumps(outcomes[start : start + _LOGGED_AT_ONCE]))
        self._count(record["counts"], record["dry_run"])

    def notice(self, text: str) -> None:
        """Log what is worth a line."""
        self._log.info("%s", text)

    def why_stop(self) -> str | None:
        """Return why the deletion is to stop."""
        return self._why_stop()
