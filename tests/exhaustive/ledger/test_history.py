"""The folded log saves reading and nothing else: the same answers as the complete chain, and none when in doubt."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any
from unittest.mock import Mock

import pytest

from airflow_kafka_groups.exceptions import JournalError, StorageError
from airflow_kafka_groups.ledger import history as histories
from airflow_kafka_groups.ledger import journal
from airflow_kafka_groups.ledger.history import DeletionHistory, FoldedRuns
from airflow_kafka_groups.ledger.journal import Journal, read_history
from airflow_kafka_groups.ledger.ledger import Ledger, fold_for_removal
from airflow_kafka_groups.ledger.life import snapshot_signs
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Outcome, Reason, kept
from airflow_kafka_groups.ledger.records import ChangeEntry, log_change
from airflow_kafka_groups.observe import cluster_log
from airflow_kafka_groups.observe.cluster_log import ClusterLog
from airflow_kafka_groups.storage import file_storage
from airflow_kafka_groups.storage.file_storage import FILES, Storage
from airflow_kafka_groups.storage.layout import Layout
from tests.records import complete_history

pytestmark = pytest.mark.safety

NOW = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)


def deleted(group_id: str) -> GroupOutcome:
    return GroupOutcome(group_id=group_id, outcome=Outcome.DELETED, code="safe", reason="deleted")


def current(folder: Path) -> DeletionHistory:
    return read_history(Layout(folder, "prod"), "c")


def fold(folder: Path) -> None:
    fold_for_removal(Layout(folder, "prod"), "c")


def folder_of_log(folder: Path) -> Path:
    return folder / "_journal" / "c" / "log"


def runs(folder: Path, first: int, last: int, *, open_ones: tuple[int, ...] = (), every: int = 0) -> None:
    """Make runs that each delete a group, find one alive, and two of which are tries of one request.

    :param every: fold the log after so many of them. Default: never.
    """
    of_cluster = Journal(folder, "c")
    for number in range(first, last + 1):
        at = NOW + timedelta(minutes=number)
        lease = {"group_id": f"lease{number % 3}"} if number % 2 else None
        header = {"run_id": f"r{number}", "request_id": f"q{number // 2}", "lease": lease}
        run = of_cluster.begin(header, at, after=current(folder))
        names = [f"g{number}", "often"]
        run.intend(dict.fromkeys(names, "f"), at)
        left = GroupOutcome(group_id=f"alive{number - 1}", outcome=Outcome.GONE, code="gone", reason="it is gone")
        dry = GroupOutcome(group_id="planned", outcome=Outcome.WOULD_DELETE, code="safe", reason="safe")
        outcomes = [*map(deleted, names), left, kept(f"alive{number % 5}", Reason.HAS_MEMBERS, "1 member"), dry]
        if number not in open_ones:
            run.conclude(outcomes, at)
            run.end(outcomes, {}, at)
        if every and number % every == 0:
            fold(folder)


def same(one: DeletionHistory, other: DeletionHistory) -> None:
    assert one.deletions() == other.deletions()
    assert one.lives() == other.lives()
    assert one.lives(gone=True) == other.lives(gone=True)
    assert one.lives() != one.lives(gone=True) or not one.lives()
    assert one.idle_resets() == other.idle_resets()
    assert one.names() == other.names()
    for minutes in range(0, 20, 2):
        since = NOW + timedelta(minutes=minutes)
        assert one.leases(since) == other.leases(since)
    for number in range(8):
        assert one.idle_resets(f"q{number}") == other.idle_resets(f"q{number}")
    for group_id in ("g1", "g7", "alive3", "often", "planned", "nobody"):
        assert one.of_group(group_id) == other.of_group(group_id)


@pytest.mark.parametrize("every", [0, 1, 3, 4])
@pytest.mark.parametrize("count", [1, 5, 9])
@pytest.mark.parametrize("open_ones", [(), (2,), (4,), (1, 5)], ids=str)
def test_the_answers_are_those_of_the_complete_chain(
    tmp_path: Path, count: int, open_ones: tuple[int, ...], every: int
) -> None:
    runs(tmp_path, 1, count, open_ones=open_ones, every=every)
    same(current(tmp_path), complete_history(tmp_path, "c"))


def test_few_entries_are_in_memory_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By count: 10,000 runs of 2,000 groups are 20 million outcomes, and each decision would end for lack of memory."""
    runs(tmp_path, 1, 20)
    asked, folded, ahead = 0, 0, 0

    def read(path: Path, *of: Any, real: Any = cluster_log.read_entry) -> Any:
        nonlocal asked
        asked += 1
        return real(path, *of)

    def add(state: FoldedRuns, entry: Any, real: Any = FoldedRuns.add) -> None:
        nonlocal folded, ahead
        folded += 1
        ahead = max(ahead, asked - folded)
        real(state, entry)

    monkeypatch.setattr(cluster_log, "read_entry", read)
    monkeypatch.setattr(FoldedRuns, "add", add)
    assert len(current(tmp_path).runs) == 20
    assert (folded, ahead <= 2 * file_storage.READERS) == (80, True)


def test_runs_without_an_end_are_read_several_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read again for good, each by requests of its own: they meet here, or the wait is broken."""
    runs(tmp_path, 1, file_storage.READERS, open_ones=tuple(range(1, file_storage.READERS + 1)))
    meeting, real = Barrier(file_storage.READERS), histories.fold  # type: ignore[attr-defined]

    def met(*arguments: Any) -> Any:
        meeting.wait(timeout=5)
        return real(*arguments)

    monkeypatch.setattr(histories, "fold", met)
    assert len(current(tmp_path).runs) == file_storage.READERS


def noted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    read: list[str] = []

    def note(path: Path, *part: int) -> bytes | None:
        read.append(path.name)
        return Storage().read(path, *part)

    monkeypatch.setattr(FILES, "read", note)
    return read


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_the_answers_are_the_same_where_few_runs_are_settled_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    runs(tmp_path, 1, 9, open_ones=(3,))
    expected = complete_history(tmp_path, "c")
    monkeypatch.setattr(histories, "_RUNS_AT_ONCE", at_once)
    same(current(tmp_path), expected)
    same(complete_history(tmp_path, "c"), expected)


@pytest.mark.parametrize("open_ones", [(), (2,)], ids=str)
def test_only_what_was_added_since_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_ones: tuple[int, ...]
) -> None:
    runs(tmp_path, 1, 9, open_ones=open_ones)
    fold(tmp_path)
    runs(tmp_path, 10, 10)
    read = noted(monkeypatch)
    found = current(tmp_path)
    assert len(found.deletions()) == 11
    assert found.idle_resets()
    assert len(read) == 7 + 2 * len(open_ones), "the table, its last entry, four new ones, and the next one in vain"


def test_of_a_request_only_the_tries_whose_groups_others_dealt_with_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deletion that is mapped over a thousand groups is one request: each task would read the records of all."""
    for number in range(1, 14):
        at, other = NOW + timedelta(minutes=number), number == 2
        header = {"run_id": f"r{number}", "request_id": "another" if other else "mapped"}
        run = Journal(tmp_path, "c").begin(header, at, after=current(tmp_path))
        names = ["g1"] if other else [f"g{number}"]
        run.intend(dict.fromkeys(names, "f"), at)
        run.end([*map(deleted, names), kept(f"alive{number}", Reason.HAS_MEMBERS, "1 member")], {}, at)
    fold(tmp_path)
    found, every = current(tmp_path), complete_history(tmp_path, "c")
    read = noted(monkeypatch)
    resets = found.idle_resets("mapped")
    assert set(read) == {"00000003.json"}, "the end of the first run: g1 is the other request's, too"
    assert resets == every.idle_resets("mapped")
    assert found.idle_resets("nobody") == {}
    assert found.idle_resets("another") == every.idle_resets("another")


@pytest.mark.parametrize("newest", [1, 3, 5])
def test_of_a_group_only_the_newest_runs_are_read(tmp_path: Path, newest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that a dry run names each day is in hundreds of them after a year."""
    runs(tmp_path, 1, 12, open_ones=(12,), every=4)
    found, every = current(tmp_path), complete_history(tmp_path, "c")
    read = noted(monkeypatch)
    assert found.of_group("often", newest) == every.of_group("often", newest)
    assert len(read) == newest - 1, "the one without an end was read before"


def test_what_an_open_run_did_after_the_log_was_folded_counts(tmp_path: Path) -> None:
    late = Journal(tmp_path, "c").begin({"run_id": "late", "request_id": "q"}, NOW, after=current(tmp_path))
    runs(tmp_path, 2, 5)
    fold(tmp_path)
    late.intend({"afterwards": "f"}, NOW)
    assert "afterwards" in current(tmp_path).deletions()
    fold(tmp_path)
    late.end([deleted("afterwards")], {}, NOW)
    assert current(tmp_path).deletions()["afterwards"].outcome is Outcome.DELETED


def flip(path: Path, part: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(len(content) * part)] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "change",
    [Path.unlink, *(partial(flip, part=part / 20) for part in range(20)), lambda path: path.write_bytes(b"")],
)
def test_a_table_in_doubt_is_not_believed(tmp_path: Path, change: Callable[[Path], object]) -> None:
    runs(tmp_path, 1, 6, open_ones=(2,))
    fold(tmp_path)
    (table,) = tmp_path.glob("_journal/c/signs.parquet")
    change(table)
    same(current(tmp_path), complete_history(tmp_path, "c"))


@pytest.mark.parametrize("name", ["proof_of_life", "not_sent"])
def test_a_table_by_other_reasons_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A version that takes another reason for proof of life would never look at the runs that ended again."""
    runs(tmp_path, 1, 4)
    with monkeypatch.context() as patch:
        patch.setitem(snapshot_signs._VERSION, name, ["moved"])
        fold(tmp_path)
    read = noted(monkeypatch)
    assert len(current(tmp_path).deletions()) == 5
    assert "00000001.json" in read


def test_an_older_table_is_brought_up_to_date(tmp_path: Path) -> None:
    runs(tmp_path, 1, 3, open_ones=(2,))
    fold(tmp_path)
    (table,) = tmp_path.glob("_journal/c/signs.parquet")
    older = table.read_bytes()
    runs(tmp_path, 4, 6)
    fold(tmp_path)
    table.write_bytes(older)
    same(current(tmp_path), complete_history(tmp_path, "c"))


@pytest.mark.parametrize("number", [1, 3, 6, 12])
@pytest.mark.promise(10)
def test_an_entry_that_is_gone_is_found_out_at_once(tmp_path: Path, number: int) -> None:
    runs(tmp_path, 1, 3)
    fold(tmp_path)
    (folder_of_log(tmp_path) / f"{number:08}.json").unlink()
    with pytest.raises(JournalError, match=r"gap|not what it was"):
        current(tmp_path)


@pytest.mark.parametrize("number", range(1, 13))
@pytest.mark.promise(10)
def test_one_that_was_changed_is_found_out_by_one_of_the_next_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(journal, "VERIFIED", 8)
    runs(tmp_path, 1, 3)
    fold(tmp_path)
    path = folder_of_log(tmp_path) / f"{number:08}.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"more": 1}))
    if number < 12:
        assert "g2" in current(tmp_path).deletions(), "the table still says what was"
    with pytest.raises(JournalError, match="changed"):
        runs(tmp_path, 4, 12)


@pytest.mark.promise(10)
@pytest.mark.parametrize("name", ["00000001.json", "log/000001.json"])
@pytest.mark.parametrize("folded", [False, True])
def test_files_of_another_layout_are_not_taken_for_an_empty_log(tmp_path: Path, name: str, folded: bool) -> None:
    path = tmp_path / "_journal" / "c" / name
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    if folded:
        path.with_name("signs.parquet").write_bytes(b"another version's")
    with pytest.raises(JournalError, match=r"before 0\.1\.0"):
        current(tmp_path)
    with pytest.raises(JournalError, match=r"before 0\.1\.0"):
        complete_history(tmp_path, "c")


@pytest.mark.promise(4)
def test_an_intent_behind_the_end_of_its_run_was_forged(tmp_path: Path) -> None:
    runs(tmp_path, 1, 1)
    ClusterLog(tmp_path, "c").add(
        {"kind": "intent", "at": NOW.isoformat(), "run": 1, "groups": ["x"], "fingerprints": ["f"]}
    )
    with pytest.raises(JournalError, match="has ended"):
        current(tmp_path)


def test_a_listing_that_is_late_costs_a_second_look_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(tmp_path, 1, 4)
    fold(tmp_path)
    runs(tmp_path, 5, 7)
    expected = complete_history(tmp_path, "c")
    for shown in (range(0), range(1, 5), range(1, 20), range(10, 29)):
        names = [f"{number:08}.json" for number in shown]
        monkeypatch.setattr(FILES, "names", lambda folder, names=names: names if folder.name == "log" else [])
        same(current(tmp_path), expected)


def test_what_is_new_after_an_error_is_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(Layout(tmp_path, "prod"), "c")
    ledger.wanted()
    with monkeypatch.context() as storage:
        storage.setattr(cluster_log, "read_entry", Mock(side_effect=StorageError("it is down")))
        with pytest.raises(StorageError):
            ledger.wanted_since()
    at = datetime(2026, 11, 1, tzinfo=UTC)
    entry = ChangeEntry(at=at, until=at, what="restore", folder="prod", run_id="r", groups=("g",))
    log_change(Layout(tmp_path, "prod"), "c", entry)
    assert set(ledger.wanted_since()) == {"g"}
    assert ledger.wanted_since() == {}
