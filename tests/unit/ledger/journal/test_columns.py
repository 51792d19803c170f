"""Outcomes in columns say the same as one by one, and entries of format 1 are read as ever."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow_kafka_groups.ledger.journal.blocks import (
    end_json,
    end_of,
    intents_json,
    intents_of,
    outcomes_json,
    outcomes_of,
)
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Outcome

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
LATER = datetime(2026, 11, 1, 12, 5, tzinfo=UTC)


def outcome(group_id: str, what: Outcome = Outcome.DELETED, code: str = "safe") -> GroupOutcome:
    return GroupOutcome(group_id=group_id, outcome=what, code=code, reason=f"because {code}")


ITEMS = [outcome("b"), outcome("a", Outcome.KEPT, "moved"), outcome("é\ud800"), outcome("c", Outcome.KEPT, "moved")]


def test_outcomes_come_back_in_order_and_each_sentence_is_written_once() -> None:
    columns = outcomes_json(ITEMS)
    assert len(columns["outcomes"]) == 2
    assert list(outcomes_of({"kind": "outcome", **columns}, AT)) == [(item, AT) for item in ITEMS]


def test_intents_come_back() -> None:
    columns = intents_json({"b": "f1", "a": "f2"})
    assert columns["fingerprints"] == ["f1", "f2"]
    assert list(intents_of({"kind": "intent", **columns}, AT)) == [("b", AT), ("a", AT)]


def test_outcomes_without_intents_are_no_intents() -> None:
    assert list(intents_of({"kind": "outcome", **outcomes_json(ITEMS)}, AT)) == []


def test_the_end_has_every_time() -> None:
    intents, decided = {"b": AT.isoformat()}, {"b": LATER.isoformat(), "a": AT.isoformat()}
    rows = end_json(ITEMS[:2], intents, decided, LATER.isoformat())
    assert list(end_of(rows)) == [(ITEMS[0], LATER, AT), (ITEMS[1], AT, None)]
