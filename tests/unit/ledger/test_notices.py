import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import JournalError
from airflow_kafka_groups.judge.policy.notice import Notice
from airflow_kafka_groups.ledger.journal.journal import Journal
from airflow_kafka_groups.ledger.notice_book import NoticeBook
from airflow_kafka_groups.storage.file_storage import FILES
from tests.fakes.groups import CLUSTER_ID, NOW

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


def book(folder: Path) -> NoticeBook:
    return NoticeBook(folder, CLUSTER_ID)


def written(folder: Path, *every: dict[str, Notice]) -> None:
    own = book(folder)
    own.read()
    for marks in every:
        own.write(marks, NOW, plan_id="p")


def test_the_newest_entry_says_everything(tmp_path: Path) -> None:
    assert book(tmp_path).read() == {}
    written(tmp_path, MARKS, {"a": MARKS["a"]}, MARKS)
    assert book(tmp_path).read() == MARKS
    written(tmp_path, {})
    assert book(tmp_path).read() == {}


@pytest.mark.safety
@pytest.mark.parametrize("lacks", ["contact", "told_seconds"])
def test_an_entry_that_lacks_what_a_message_said_is_an_error_and_never_no_message(lacks: str, tmp_path: Path) -> None:
    written(tmp_path, MARKS)
    path = tmp_path / "_journal" / CLUSTER_ID / "notices" / "000001.json"
    data = json.loads(path.read_text())
    column = data["marks"].pop(lacks)
    for marks in (data["marks"], {**data["marks"], lacks: [None] * len(column)}):
        if lacks == "contact" and lacks in marks:
            continue  # it went to another owner or contact than the policy has
        path.write_text(json.dumps({**data, "marks": marks}))
        with pytest.raises(JournalError):
            book(tmp_path).read()


def test_runs_of_the_journal_and_marks_are_apart(tmp_path: Path) -> None:
    written(tmp_path, MARKS)
    journal = Journal(tmp_path, CLUSTER_ID)
    assert journal.read().runs == []
    run = journal.begin({"run_id": "r", "request_id": "q"}, NOW, after=journal.read())
    written(tmp_path, {})
    assert not run.overtaken()
    assert book(tmp_path).read() == {}


@pytest.mark.safety
def test_of_two_that_write_at_once_one_is_refused(tmp_path: Path) -> None:
    one, other = book(tmp_path), book(tmp_path)
    one.read(), other.read()
    one.write(MARKS, NOW)
    with pytest.raises(JournalError, match="somebody else has written"):
        other.write({}, NOW)
    assert book(tmp_path).read() == MARKS


@pytest.mark.safety
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("damage", ["edited", "torn", "another kind", "removed"])
def test_an_entry_that_was_changed_is_an_error_and_never_no_mark(number: int, damage: str, tmp_path: Path) -> None:
    written(tmp_path, MARKS, {"a": MARKS["a"]})
    path = tmp_path / "_journal" / CLUSTER_ID / "notices" / f"{number:06}.json"
    if damage == "removed" and number == 2:
        return  # the newest: an earlier entry says the same or less of notices that were given
    data = json.loads(path.read_text())
    if damage == "removed":
        path.unlink()
    elif damage == "torn":
        path.write_bytes(path.read_bytes()[:-20])
    else:
        changes = {"kind": "runs"} if damage == "another kind" else {"previous": "0" * 64, "at": "x"}
        path.write_text(json.dumps({**data, **changes}))
    with pytest.raises(JournalError):
        book(tmp_path).read()


def test_a_listing_that_is_late_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, {}, MARKS)
    monkeypatch.setattr(FILES, "names", lambda folder: [])
    assert book(tmp_path).read() == MARKS


@pytest.mark.safety
def test_an_entry_that_is_listed_and_cannot_be_found_is_an_error_and_never_no_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FILES, "names", lambda _: ["000001.json"])
    with pytest.raises(JournalError, match=r"000001\.json is listed and cannot be found"):
        book(tmp_path).read()


def test_a_cluster_without_an_id_has_no_marks(tmp_path: Path) -> None:
    with pytest.raises(JournalError):
        NoticeBook(tmp_path, None)


@pytest.mark.safety
def test_what_a_plan_said_is_not_known_where_an_entry_is_missing(tmp_path: Path) -> None:
    """A plan whose entries could not be found seemed to be new, and notified all owners again."""
    written(tmp_path, MARKS, MARKS, MARKS, MARKS)
    (book(tmp_path).folder / "000002.json").unlink()
    own = book(tmp_path)
    assert own.read() == MARKS
    assert len(own.written_by("p", NOW + timedelta(seconds=1))) == 0
    with pytest.raises(JournalError, match=r"000002\.json cannot be found"):
        own.written_by("p", NOW)


def test_what_a_plan_said_is_without_all_marks_of_each_entry(tmp_path: Path) -> None:
    """Each entry has all marks: a plan with hundreds of owners had hundreds of copies in memory."""
    written(tmp_path, MARKS, MARKS)
    own = book(tmp_path)
    own.read()
    found = own.written_by("p", NOW)
    assert [sorted(entry) for entry in found] == [["at", "format", "kind", "plan_id", "previous"]] * 2


def with_changes(folder: Path, count: int) -> dict[str, Notice]:
    """Write all marks, then one change after the other; return the marks in the end."""
    own, marks = book(folder), dict(MARKS)
    own.read()
    own.write(marks, NOW, plan_id="p")
    for number in range(count):
        changed = ("b", "a")[number % 2]
        marks[changed] = replace(marks[changed], notified_at=NOW + timedelta(minutes=number), told_seconds=4.0)
        own.write(marks, NOW, changed=[changed], plan_id="p")
    return marks


@pytest.mark.parametrize("count", range(4))
def test_entries_of_what_changed_amount_to_all_marks(tmp_path: Path, count: int) -> None:
    assert with_changes(tmp_path, count) == book(tmp_path).read()
    written(tmp_path, {"a": MARKS["a"]})
    assert book(tmp_path).read() == {"a": MARKS["a"]}


@pytest.mark.safety
@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("damage", ["edited", "torn", "removed", "without its marks"])
def test_every_entry_that_marks_rest_on_is_looked_at(tmp_path: Path, number: int, damage: str) -> None:
    with_changes(tmp_path, 3)
    path = tmp_path / "_journal" / CLUSTER_ID / "notices" / f"{number:06}.json"
    data = json.loads(path.read_text())
    if damage == "removed":
        path.unlink()
    elif damage == "torn":
        path.write_bytes(path.read_bytes()[:-20])
    elif damage == "edited":
        path.write_text(json.dumps({**data, "plan_id": "q"}))
    else:
        path.write_text(json.dumps({key: value for key, value in data.items() if key not in ("marks", "changed")}))
    with pytest.raises(JournalError):
        book(tmp_path).read()


def test_a_change_that_is_listed_late_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marks = with_changes(tmp_path, 3)
    monkeypatch.setattr(FILES, "names", lambda folder: ["000002.json"])
    assert book(tmp_path).read() == marks
