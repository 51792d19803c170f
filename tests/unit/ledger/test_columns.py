"""Entries of the journal: outcomes in columns say the same as one by one, and docs/formats.md names the fields."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Outcome
from airflow_kafka_groups.ledger.run_records import end_json, outcomes_json, outcomes_of
from tests.pages import DOCS
from tests.unit.change.deletion.steps import cluster, delete
from tests.unit.change.scene import backed_up, layout_in

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
LATER = datetime(2026, 11, 1, 12, 5, tzinfo=UTC)


def outcome(group_id: str, what: Outcome = Outcome.DELETED, code: str = "safe") -> GroupOutcome:
    return GroupOutcome(group_id=group_id, outcome=what, code=code, reason=f"because {code}")


ITEMS = [outcome("b"), outcome("a", Outcome.KEPT, "moved"), outcome("é\ud800"), outcome("c", Outcome.KEPT, "moved")]


def test_outcomes_come_back_in_order_and_each_sentence_is_written_once() -> None:
    columns = outcomes_json(ITEMS)
    assert len(columns["outcomes"]) == 2
    assert list(outcomes_of(columns)) == ITEMS


def test_the_end_has_every_time() -> None:
    rows = end_json(ITEMS[:2], {"b": AT}, {"b": LATER, "a": AT})
    assert list(outcomes_of(rows)) == ITEMS[:2]
    times = [datetime.fromisoformat(at) for at in rows["times"]]
    assert [times[each] for each in rows["decided"]] == [LATER, AT]
    assert [None if each is None else times[each] for each in rows["intended"]] == [AT, None]


_OF_EVERY_ENTRY = {"format", "kind", "at", "previous"}
JOURNAL = (DOCS / "formats.md").read_text().partition("\n## Journal\n")[2].partition("\n## ")[0]


def documented(kind: str) -> set[str]:
    """Return the fields in the row of a kind."""
    row = next(line for line in JOURNAL.splitlines() if line.startswith(f"| `{kind}` |"))
    named = set(re.findall(r"`(\w+)`", row.partition(" | ")[2]))
    return named - {"begun"} | documented("begun") if "begun" in named else named


@pytest.mark.parametrize("kind", ["begun", "intent", "outcome", "ended", "snapshot"])
async def test_an_entry_has_the_fields_of_the_page(tmp_path: Path, kind: str) -> None:
    admin, layout = cluster("a", "b"), layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    await delete(admin, layout, plan)
    entries: list[dict[str, Any]] = [json.loads(path.read_text()) for path in (tmp_path / "_journal").rglob("*.json")]
    (entry,) = (entry for entry in entries if entry["kind"] == kind)
    assert set(entry) - _OF_EVERY_ENTRY == documented(kind)
