"""Entries of one run, folded into its record. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from airflow_kafka_groups.exceptions import JournalError
from airflow_kafka_groups.ledger.journal.columns import end_of, intents_of, outcomes_of
from airflow_kafka_groups.ledger.journal.history import RunRecord
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Outcome
from airflow_kafka_groups.storage.file_errors import unless_damaged
from airflow_kafka_groups.storage.ids import parse_time


def fold(
    number: int,
    begun: Mapping[str, Any],
    entries: Iterable[Mapping[str, Any]],
    ended: Mapping[str, Any] | None,
    path: str,
    body: Iterable[Mapping[str, Any]] = (),
) -> RunRecord:
    """Fold the entries of one run into its record.

    :param entries: its intents and outcomes in order; empty when ``ended`` says it all.
    :param body: the outcomes that the end of a large run vouches for.

    Raises ``JournalError`` for an entry that is damaged.
    """
    outcomes: dict[str, GroupOutcome] = {}
    intents: dict[str, datetime] = {}
    decided_at: dict[str, datetime] = {}
    with unless_damaged(JournalError, f"run {number} of the journal"):
        for entry in (*entries, *(() if ended is None else (ended,))):
            at = parse_time(entry["at"])
            for group_id, when in intents_of(entry, at):
                intents[group_id] = when
                outcomes[group_id] = _possibly_deleted(group_id)  # also after an earlier intent that was not sent
                decided_at.pop(group_id, None)
            for outcome, when in outcomes_of(entry, at):
                outcomes[outcome.group_id], decided_at[outcome.group_id] = outcome, when
        for rows in body:
            for outcome, decided, intended in end_of(rows):
                outcomes[outcome.group_id], decided_at[outcome.group_id] = outcome, decided
                if intended is not None:
                    intents[outcome.group_id] = intended
        return RunRecord(
            number=number,
            begun={"run_id": begun["run_id"], "request_id": begun["request_id"], **begun},
            outcomes=outcomes,
            intents=intents,
            decided_at=decided_at,
            ended=ended,
            path=path,
        )


def _possibly_deleted(group_id: str) -> GroupOutcome:
    reason = "a request to delete it was about to leave when the run was interrupted: it may or may not be deleted"
    return GroupOutcome(group_id=group_id, outcome=Outcome.UNKNOWN, code="possibly_deleted", reason=reason)
