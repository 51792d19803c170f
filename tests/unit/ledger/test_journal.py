"""The journal: intents before outcomes, nothing lost, nothing overwritten, nothing changed unnoticed."""

import json
from collections.abc import Callable
from copy import copy
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import JournalError, StorageError
from airflow_kafka_groups.ledger.journal import Journal, RunJournal, read_history
from airflow_kafka_groups.ledger.ledger import fold_for_removal
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Outcome, Reason, kept
from airflow_kafka_groups.ledger.run_records import PROOF_OF_LIFE, RunRecord
from airflow_kafka_groups.observe.cluster_log import ClusterLog, read_entry
from airflow_kafka_groups.storage.disk import Disk
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.layout import Layout
from tests.records import history_before

NOW = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
CLUSTER = "QkFGTA/with-+odd"
SNAPSHOT = {"kind": "snapshot", "folder": "prod", "snapshot_id": "20261101T000000Z-00000001", "at": NOW.isoformat()}


def header(
    plan_id: str | None = "20261101T000000Z-00000001", run_id: str = "20261101T120000Z-000000aa"
) -> dict[str, Any]:
    return {"run_id": run_id, "request_id": plan_id}


def journal_in(path: Path) -> Journal:
    return Journal(path, CLUSTER)


def begin(path: Path, at: datetime = NOW, **of_header: Any) -> RunJournal:
    journal = journal_in(path)
    return journal.begin(header(**of_header), at, after=history_before(journal))


def deleted(group_id: str) -> GroupOutcome:
    return GroupOutcome(group_id=group_id, outcome=Outcome.DELETED, code="safe", reason="deleted")


def outcome(group_id: str, what: Outcome, code: str) -> GroupOutcome:
    return GroupOutcome(group_id=group_id, outcome=what, code=code, reason="because")


def test_an_empty_journal_has_no_runs(tmp_path: Path) -> None:
    assert list(history_before(journal_in(tmp_path)).runs) == []


@pytest.mark.parametrize("cluster_id", [None, "", ".", ".."])
def test_a_cluster_without_an_id_has_no_journal(tmp_path: Path, cluster_id: str | None) -> None:
    with pytest.raises(JournalError, match="no usable id"):
        Journal(tmp_path, cluster_id)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"[" * 200_000], ids=["", "{", "[]", "{}", "nested"])
def test_an_entry_that_is_damaged_in_any_way_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "0000000001.json").write_bytes(content)
    with pytest.raises(
        JournalError, match=r"entry .*0000000001\.json (is damaged|cannot be read: it has the format None)"
    ):
        read_entry(tmp_path / "0000000001.json")


@pytest.mark.promise(4)
def test_an_intent_without_an_outcome_is_possibly_deleted(tmp_path: Path) -> None:
    run = begin(tmp_path)
    run.intend({"a": "f1", "b": "f2"}, NOW)
    history = history_before(journal_in(tmp_path))
    assert {d.group_id: (d.outcome, d.at) for d in history.deletions().values()} == {
        "a": (Outcome.UNKNOWN, NOW),
        "b": (Outcome.UNKNOWN, NOW),
    }
    assert history.runs[0].outcomes["a"].code == "possibly_deleted"
    run.conclude([deleted("a"), kept("b", Reason.CAME_BACK, "it has members")], LATER)
    history = history_before(journal_in(tmp_path))
    assert {d.group_id: d.outcome for d in history.deletions().values()} == {"a": Outcome.DELETED}
    assert history.deletions()["a"].at == LATER, "the idle time begins anew at the latest time it can have gone"
    assert [(life.group_id, life.code, life.at) for life in history.lives().values()] == [("b", "came_back", LATER)]


@pytest.mark.parametrize(
    ("what", "code", "counts"),
    [
        (Outcome.DELETED, "safe", True),
        (Outcome.UNKNOWN, "outcome_unknown", True),
        (Outcome.GONE, "gone", True),  # not found by a request that was sent twice by a failover: it may have been ours
        (Outcome.FAILED, "still_there", True),  # found there afterwards: it may have come back
        (Outcome.FAILED, "group_authorization_failed", False),
        (Outcome.KEPT, "came_back", False),
        (Outcome.KEPT, "lease_lost", False),
        (Outcome.KEPT, "too_slow", False),
        (Outcome.KEPT, "anything_else", True),
    ],
)
@pytest.mark.promise(4)
def test_what_counts_as_deleted_after_an_intent(tmp_path: Path, what: Outcome, code: str, counts: bool) -> None:
    run = begin(tmp_path)
    run.intend({"a": "f"}, NOW)
    run.conclude([outcome("a", what, code)], LATER)
    assert ("a" in history_before(journal_in(tmp_path)).deletions()) is counts


def test_without_an_intent_nothing_was_deleted_whatever_the_outcome_says(tmp_path: Path) -> None:
    run = begin(tmp_path)
    run.conclude([outcome("a", Outcome.GONE, "gone"), outcome("b", Outcome.UNKNOWN, "x")], NOW)
    assert history_before(journal_in(tmp_path)).deletions() == {}


def test_the_end_says_the_same_as_all_entries_before_it(tmp_path: Path) -> None:
    run = begin(tmp_path)
    run.intend({"a": "f", "b": "f"}, NOW)
    run.conclude([deleted("a"), outcome("b", Outcome.UNKNOWN, "no_answer"), kept("c", Reason.MOVED, "moved")], LATER)
    before = history_before(journal_in(tmp_path))
    outcomes = [deleted("a"), outcome("b", Outcome.UNKNOWN, "no_answer"), kept("c", Reason.MOVED, "moved")]
    run.end(outcomes, {"counts": {"deleted": 1}}, LATER + timedelta(hours=1))
    after = history_before(journal_in(tmp_path))
    assert after.deletions() == before.deletions()
    assert after.lives() == before.lives()
    assert after.runs[0].ended is not None
    assert after.runs[0].ended["counts"] == {"deleted": 1}


def test_a_run_cannot_end_without_an_outcome_for_each_intent(tmp_path: Path) -> None:
    run = begin(tmp_path)
    run.intend({"a": "f", "b": "f"}, NOW)
    with pytest.raises(JournalError, match="'b' was about to be deleted and has no outcome"):
        run.end([deleted("a")], {}, LATER)
    assert "b" in history_before(journal_in(tmp_path)).deletions()


def test_deletions_and_lives_of_one_plan_only(tmp_path: Path) -> None:
    first, second = "20261101T000000Z-00000001", "20261102T000000Z-00000002"
    run = begin(tmp_path, plan_id=first)
    run.intend({"a": "f"}, NOW)
    run = begin(tmp_path, LATER, plan_id=second, run_id="r2")
    run.conclude([kept("b", Reason.HAS_MEMBERS, "1 member")], LATER)
    history = history_before(journal_in(tmp_path))
    assert (set(history.deletions(first)), set(history.deletions(second))) == ({"a"}, set())
    assert (set(history.lives(first)), set(history.lives(second))) == (set(), {"b"})
    assert [run.run_id for run in history.of_group("a")] == ["20261101T120000Z-000000aa"]
    assert [run.run_id for run in history.runs if run.request_id == second] == ["r2"]


@pytest.mark.promise(11)
def test_of_two_runs_that_begin_at_once_one_is_refused(tmp_path: Path) -> None:
    journal = journal_in(tmp_path)
    history = history_before(journal)
    journal.begin(header(), NOW, after=history)
    with pytest.raises(JournalError, match="another run has begun"):
        journal.begin(header(run_id="other"), NOW, after=history)


def test_two_processes_cannot_both_write_to_one_run(tmp_path: Path) -> None:
    journal = journal_in(tmp_path)
    one = journal.begin(header(), NOW, after=history_before(journal))
    twin = RunJournal(copy(one._log), one._begun)
    one.intend({"a": "f"}, NOW)
    with pytest.raises(JournalError, match="somebody else has written"):
        twin.intend({"b": "f"}, NOW)
    for _ in range(2):
        with pytest.raises(JournalError, match="somebody else has written"):
            twin.conclude([deleted("a")], NOW)
        with pytest.raises(JournalError, match="somebody else has written"):
            twin.overtaken()
        with pytest.raises(JournalError, match="somebody else has written"):
            twin.end([deleted("a")], {}, NOW)
    one.end([deleted("a")], {}, NOW)
    with pytest.raises(JournalError, match="somebody else has written"):
        twin.conclude([deleted("a")], NOW)
    assert set(history_before(journal).deletions()) == {"a"}


def test_what_others_write_meanwhile_takes_a_number_and_stops_no_run(tmp_path: Path) -> None:
    """A snapshot, or a dry run, adds entries between any two of a run's own."""
    journal, others = journal_in(tmp_path), ClusterLog(tmp_path, CLUSTER)
    history = history_before(journal)
    others.add(SNAPSHOT)
    run = journal.begin(header(), NOW, after=history)
    others.add(SNAPSHOT)
    run.intend({"a": "f"}, NOW)
    look = journal.begin({**header(run_id="look"), "dry_run": True}, NOW, after=history_before(journal))
    run.conclude([deleted("a")], NOW)
    assert not run.overtaken()
    look.conclude([kept("b", Reason.HAS_MEMBERS, "1 member")], NOW)
    run.end([deleted("a")], {}, NOW)
    look.end([kept("b", Reason.HAS_MEMBERS, "1 member")], {}, NOW)
    kinds = [json.loads(path.read_bytes())["kind"] for path in sorted(journal.folder.glob("*.json"))]  # type: ignore[attr-defined]
    assert kinds == ["snapshot", "begun", "snapshot", "intent", "begun", "outcome", "outcome", "ended", "ended"]
    first, second = history_before(journal).runs
    assert (list(first.outcomes), list(second.outcomes)) == (["a"], ["b"])


@pytest.mark.promise(11)
def test_of_two_runs_under_way_one_finds_the_other(tmp_path: Path) -> None:
    """The order of the log decides: the later one finds the intent, or the earlier one sends nothing."""
    first = begin(tmp_path)
    first.intend({"a": "f"}, NOW)
    assert not first.overtaken()
    second = begin(tmp_path, run_id="r2")
    assert "a" in history_before(journal_in(tmp_path)).deletions()
    assert first.overtaken()
    first.intend({"b": "f"}, NOW)
    second.intend({"c": "f"}, NOW)
    assert (first.overtaken(), second.overtaken()) == (True, False)


def test_a_run_goes_on_behind_an_entry_whose_answer_was_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = begin(tmp_path)
    create = FILES.create

    def lost(*arguments: Any, **how: Any) -> None:
        create(*arguments, **how)
        raise StorageError("no answer")

    monkeypatch.setattr(FILES, "create", lost)
    with pytest.raises(StorageError):
        run.intend({"a": "f"}, NOW)
    monkeypatch.undo()
    assert set(history_before(journal_in(tmp_path)).deletions()) == {"a"}
    run.end([kept("a", Reason.STOPPED, "not sent")], {}, NOW)
    assert history_before(journal_in(tmp_path)).deletions() == {}


def test_nothing_is_sent_where_the_storage_was_unmounted(tmp_path: Path) -> None:
    """Nor is anything written there: behind a gap, the log could never be read again."""
    run = begin(tmp_path)
    run.intend({"a": "f"}, NOW)
    mounted, elsewhere = tmp_path / "_journal", tmp_path / "elsewhere"
    mounted.rename(elsewhere)
    for write in (
        run.overtaken,
        partial(run.intend, {"b": "f"}, NOW),
        partial(run.conclude, [deleted("a")], NOW),
        partial(run.end, [deleted("a")], {}, NOW),
    ):
        with pytest.raises(JournalError, match="check that the storage is mounted"):
            write()
    assert not mounted.exists()
    elsewhere.rename(mounted)
    run.conclude([deleted("a")], NOW)
    run.end([deleted("a")], {}, NOW)
    assert history_before(journal_in(tmp_path)).deletions()["a"].outcome is Outcome.DELETED


def test_no_run_begins_where_the_storage_was_unmounted(tmp_path: Path) -> None:
    begin(tmp_path)
    history = history_before(journal_in(tmp_path))
    tmp_path.joinpath("_journal").rename(tmp_path / "elsewhere")
    with pytest.raises(JournalError, match=r"mounted|gap"):
        journal_in(tmp_path).begin(header(run_id="r2"), NOW, after=history)


def test_a_clock_behind_the_journal_begins_no_run(tmp_path: Path) -> None:
    begin(tmp_path, NOW + timedelta(hours=1))
    with pytest.raises(JournalError, match="the clock says"):
        begin(tmp_path, NOW, run_id="r2")


def test_no_run_begins_on_a_storage_that_replaces_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def put(_: Disk, path: Path, data: bytes, **how: bool) -> None:  # ignores the condition
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    begin(tmp_path)
    monkeypatch.setattr(Disk, "create", put)
    for _ in range(2):
        with pytest.raises(StorageError, match="the storage replaced it; nothing was deleted"):
            begin(tmp_path)
    assert len(history_before(journal_in(tmp_path)).runs) == 1
    monkeypatch.undo()  # the storage was mended, and has the file as it was replaced
    begin(tmp_path)
    assert len(history_before(journal_in(tmp_path)).runs) == 2


@pytest.mark.promise(10)
def test_a_listing_that_hides_the_newest_entries_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = begin(tmp_path)
    run.intend({"a": "f"}, NOW)
    run = begin(tmp_path, LATER, run_id="r2")
    run.intend({"b": "f"}, LATER)
    monkeypatch.setattr(FILES, "names", lambda folder: [])
    assert set(history_before(journal_in(tmp_path)).deletions()) == {"a", "b"}


def three_runs(path: Path) -> None:
    run = begin(path)
    run.intend({"a": "f"}, NOW)
    run.conclude([deleted("a")], NOW)
    run.end([deleted("a")], {}, NOW)
    run = begin(path, run_id="r2")
    run.intend({"b": "f"}, NOW)
    run.conclude([deleted("b")], NOW)
    begin(path, run_id="r3")


def _edit(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"because", b"becAuse").replace(b"deleted", b"unknown"))


@pytest.mark.parametrize(
    "change", [Path.unlink, _edit, lambda path: path.write_bytes(b"{}")], ids=["gone", "edited", "torn"]
)
@pytest.mark.parametrize(
    "number", [1, 2, 4, 5, 6], ids=["begun", "intent of one that ended", "ended", "another begun", "its intent"]
)
@pytest.mark.promise(10)
def test_whoever_changes_an_entry_is_found_out(tmp_path: Path, number: int, change: Callable[[Path], object]) -> None:
    three_runs(tmp_path)
    journal = journal_in(tmp_path)
    assert set(history_before(journal).deletions()) == {"a", "b"}
    (file,) = tmp_path.glob(f"_journal/*/log/{number:08}.json")
    before = file.read_bytes()
    change(file)
    if file.exists() and file.read_bytes() == before:
        (data := json.loads(before))["run_id"] = "changed"
        file.write_text(json.dumps(data))
    with pytest.raises(JournalError):
        history_before(journal)


def test_a_storage_that_fails_is_an_error_and_never_an_empty_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(tmp_path).intend({"a": "f"}, NOW)

    def fail(path: object) -> bytes:
        raise StorageError("no answer")

    monkeypatch.setattr(FILES, "read", fail)
    with pytest.raises(StorageError):
        history_before(journal_in(tmp_path))


@pytest.mark.promise(6)
def test_proof_of_life_is_what_a_consumer_in_use_looks_like() -> None:
    assert sorted(PROOF_OF_LIFE) == ["came_back", "changed_kind", "has_members", "moved", "not_empty", "subscribed"]


@pytest.mark.parametrize(
    ("what", "code", "said"), [(Outcome.GONE, "gone", "found it gone"), (Outcome.KEPT, "moved", "found it in use")]
)
def test_what_a_look_found_is_said(what: Outcome, code: str, said: str, tmp_path: Path) -> None:
    begin(tmp_path).conclude([outcome("a", what, code)], NOW)
    (reset,) = history_before(journal_in(tmp_path)).idle_resets().values()
    assert said in reset.reason


def test_a_second_intent_after_one_that_was_not_sent_counts_again(tmp_path: Path) -> None:
    run = begin(tmp_path)
    run.intend({"a": "f"}, NOW)
    run.conclude([kept("a", Reason.TOO_SLOW, "not sent")], NOW)
    assert history_before(journal_in(tmp_path)).deletions() == {}
    run.intend({"a": "f"}, LATER)
    assert history_before(journal_in(tmp_path)).deletions()["a"].outcome is Outcome.UNKNOWN


PLAN, OTHER = "20261101T000000Z-00000001", "20261101T000000Z-00000002"


def test_an_outcome_that_only_the_end_has_is_not_as_old_as_the_one_before_its_intent(tmp_path: Path) -> None:
    run = begin(tmp_path)
    run.intend({"a": "f"}, NOW)
    run.conclude([kept("a", Reason.TOO_SLOW, "too late")], NOW)
    run.intend({"a": "f"}, NOW + timedelta(seconds=20))
    run.end([deleted("a")], {}, LATER)
    (found,) = history_before(journal_in(tmp_path)).runs
    assert found.possibly_deleted() == {"a": LATER}


def _run(path: Path, plan_id: str | None, at: datetime, group_id: str) -> None:
    journal = journal_in(path)
    facts = {**header(plan_id=plan_id), "plan_id": plan_id, "request_id": "a task's own"}
    run = journal.begin(facts, at, after=history_before(journal))
    run.intend({group_id: "f"}, at)
    run.conclude([deleted(group_id)], at)
    run.end([deleted(group_id)], {}, at)


def of_plan(folder: Path, plan_id: str) -> list[RunRecord]:
    return read_history(Layout(folder, "prod"), CLUSTER).of_plan(plan_id)


@pytest.mark.parametrize("folded", [False, True])
def test_the_runs_of_a_plan_are_found(tmp_path: Path, folded: bool) -> None:
    for number, plan_id in enumerate([PLAN, OTHER, None, PLAN, OTHER, PLAN]):
        _run(tmp_path, plan_id, NOW + timedelta(minutes=number), f"g{number}")
        if folded:
            fold_for_removal(Layout(tmp_path, "prod"), CLUSTER)
    assert [list(run.outcomes) for run in of_plan(tmp_path, PLAN)] == [["g0"], ["g3"], ["g5"]]
    assert of_plan(tmp_path, "20261101T000000Z-00000003") == []


@pytest.mark.promise(10)
def test_the_runs_of_a_plan_are_checked_against_what_was_folded(tmp_path: Path) -> None:
    for number in range(3):
        _run(tmp_path, PLAN, NOW + timedelta(minutes=number), f"g{number}")
    fold_for_removal(Layout(tmp_path, "prod"), CLUSTER)
    folder: Any = journal_in(tmp_path).folder
    _edit(folder / "00000004.json")
    with pytest.raises(JournalError, match="not what it was"):
        of_plan(tmp_path, PLAN)
    (folder / "00000002.json").unlink()
    with pytest.raises(JournalError, match="gap"):
        of_plan(tmp_path, PLAN)
