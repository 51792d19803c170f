"""The marks of notices, by the log of their cluster."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import JournalError
from airflow_kafka_groups.judge.policy.notice import Notice
from airflow_kafka_groups.ledger.ledger import Ledger, fold_for_removal
from airflow_kafka_groups.ledger.notice_book import note, noted_by
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.groups import CLUSTER_ID, NOW
from tests.fakes.marks import marks_in
from tests.fakes.wanted import want

MARKS = {
    "a": Notice(fingerprint="f", marked_at=NOW, owner="team"),
    "b": Notice(
        fingerprint="g",
        marked_at=NOW,
        notified_at=NOW + timedelta(hours=1),
        contact="b@example.com",
        told_seconds=86_400.0,
    ),
}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path, "prod")


def written(layout: Layout, *every: dict[str, Any]) -> Ledger:
    ledger = Ledger(layout, CLUSTER_ID)
    ledger.notices()
    for marks in every:
        note(ledger, "p", marks, NOW)
    return ledger


def entry(tmp_path: Path, number: int) -> Path:
    (path,) = tmp_path.glob(f"_journal/*/log/{number:08}.json")
    return path


@pytest.mark.parametrize("folded", range(4))
def test_each_entry_says_what_changed(tmp_path: Path, layout: Layout, folded: int) -> None:
    changes: list[dict[str, Any]] = [MARKS, {"a": None}, {"b": replace(MARKS["b"], owner="other"), "c": MARKS["a"]}]
    amount: dict[str, Notice] = {}
    assert marks_in(tmp_path, CLUSTER_ID) == amount
    for number, marks in enumerate(changes):
        if number == folded:
            fold_for_removal(layout, CLUSTER_ID)
        written(layout, marks)
        amount = {name: mark for name, mark in (amount | marks).items() if mark is not None}
        assert marks_in(tmp_path, CLUSTER_ID) == amount
    assert set(amount) == {"b", "c"}
    assert marks_in(tmp_path, "another") == {}


@pytest.mark.safety
@pytest.mark.parametrize("lacks", ["contact", "told_seconds", "notified_at", "marked_at"])
def test_an_entry_that_lacks_what_a_message_said_is_an_error_and_never_no_message(
    lacks: str, tmp_path: Path, layout: Layout
) -> None:
    written(layout, MARKS)
    path = entry(tmp_path, 1)
    data = json.loads(path.read_text())
    del data["marks"]["b"][lacks]
    path.write_text(json.dumps(data))
    with pytest.raises(JournalError, match=r"000001\.json is damaged"):
        marks_in(tmp_path, CLUSTER_ID)


@pytest.mark.safety
def test_of_two_that_write_at_once_one_is_refused(tmp_path: Path, layout: Layout) -> None:
    one, other = written(layout), written(layout)
    want(layout, "z", at=NOW)  # which is no mark
    note(one, "p", MARKS, NOW)
    with pytest.raises(JournalError, match="somebody else has written"):
        note(other, "p", {"a": None}, NOW)
    assert marks_in(tmp_path, CLUSTER_ID) == MARKS


@pytest.mark.safety
@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("damage", ["edited", "torn", "another kind", "without its marks", "removed"])
def test_an_entry_that_was_changed_is_an_error_and_never_no_mark(
    number: int, damage: str, tmp_path: Path, layout: Layout, *, folded: bool
) -> None:
    written(layout, MARKS, {"a": MARKS["a"]})
    if folded:
        fold_for_removal(layout, CLUSTER_ID)
        if number == 1:
            return  # the table has what it said
    path = entry(tmp_path, number)
    data = json.loads(path.read_text())
    if damage == "removed":
        path.unlink()
    elif damage == "torn":
        path.write_bytes(path.read_bytes()[:-20])
    elif damage == "without its marks":
        path.write_text(json.dumps({key: value for key, value in data.items() if key != "marks"}))
    else:
        path.write_text(
            json.dumps({**data, **({"kind": "runs"} if damage == "another kind" else {"previous": "0" * 64})})
        )
    if damage == "removed" and number == 2 and not folded:
        return  # the newest: an earlier entry says the same or less of notices that were given
    with pytest.raises(JournalError):
        marks_in(tmp_path, CLUSTER_ID)


def test_a_listing_that_is_late_hides_nothing(tmp_path: Path, layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    written(layout, {}, MARKS)
    monkeypatch.setattr(FILES, "names", lambda folder: [])
    assert marks_in(tmp_path, CLUSTER_ID) == MARKS


def test_a_cluster_without_an_id_has_no_marks(tmp_path: Path) -> None:
    with pytest.raises(JournalError):
        marks_in(tmp_path, None)


@pytest.mark.safety
def test_what_a_plan_said_is_not_known_where_an_entry_was_changed(tmp_path: Path, layout: Layout) -> None:
    """A plan whose entries could not be found seemed to be new, and notified all owners again."""
    written(layout, MARKS, MARKS)
    fold_for_removal(layout, CLUSTER_ID)
    assert [sorted(each) for each in noted_by(Ledger(layout, CLUSTER_ID), "p")] == [
        ["at", "folder", "format", "kind", "marks", "plan_id", "previous"]
    ] * 2
    assert noted_by(Ledger(layout, CLUSTER_ID), "q") == []
    path = entry(tmp_path, 1)
    path.write_text(path.read_text().replace("team", "crew"))
    with pytest.raises(JournalError, match=r"000001\.json is not what it was"):
        noted_by(Ledger(layout, CLUSTER_ID), "p")
