"""The observer of a deletion in a task: what happens goes to the task's log, and a killed task stops it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.maintenance.deletion.outcomes import GroupOutcome
from airflow_kafka_groups.maintenance.deletion.request import DeletionObserver
from airflow_kafka_groups.maintenance.shown import one_line
from airflow_kafka_groups.operators.support.base import FIRST_FAILURES

if TYPE_CHECKING:
    from airflow_kafka_groups.operators.support.deleting import DeletingOperator

_LOGGED_AT_ONCE = 100
_GO_ON = frozenset({"", "0", "false", "no", "off"})


class LoggedDeletion(DeletionObserver):
    """Logs the outcomes of each chunk, and all of them if they cannot be recorded.

    :param operator: the operator whose task deletes.
    """

    def __init__(self, operator: DeletingOperator) -> None:
        self._operator = operator
        self._log = operator.log

    def progress(self, stage: str, done: int, total: int) -> None:
        """Log how far a stage is."""
        self._operator.log_progress(stage, done, total)

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
        from airflow_kafka_groups.operators.support.telemetry import count_outcomes

        outcomes = record["outcomes"]
        self._log.error("The record could not be written: %s", json.dumps({**record, "outcomes": len(outcomes)}))
        for start in range(0, len(outcomes), _LOGGED_AT_ONCE):
            self._log.error("Not recorded: %s", json.dumps(outcomes[start : start + _LOGGED_AT_ONCE]))
        count_outcomes(self._operator, record["counts"], dry_run=record["dry_run"])

    def notice(self, text: str) -> None:
        """Log what is worth a line."""
        self._log.info("%s", text)

    def why_stop(self) -> str | None:
        """Return why the deletion is to stop: the task is being killed, or the Airflow Variable says so."""
        if self._operator.stopped:
            return "the task is being killed"
        return why_variable_stops(self._operator.stop_variable)


def why_variable_stops(name: str | None) -> str | None:
    """Return why an Airflow Variable stops deletions, ``None`` if it does not exist or says no.

    An error, or a value that is neither yes nor no, stops them: every doubt keeps a group. Airflow 3.3 only logs the
    errors of its secrets backends, and then says that there is no such Variable, so they are asked once more.

    :param name: the Variable; ``None`` looks at none.
    """
    if name is None:
        return None
    from airflow.sdk import Variable

    from airflow_kafka_groups.hooks.airflow_lookups import why_variable_unclear

    try:
        value = Variable.get(name, default=None)
        why = why_variable_unclear(name) if value is None else None
    except Exception as exc:  # noqa: BLE001  # whatever the secrets backends raise
        why = type(exc).__name__
    if why is not None:
        return f"the Airflow Variable {name!r} could not be read: {why}"
    if value is None or str(value).strip().lower() in _GO_ON:
        return None
    return f"the Airflow Variable {name!r} is set"
