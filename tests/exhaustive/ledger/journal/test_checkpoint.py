"""Checkpoints save reading and nothing else: the same answers as the complete chain, and none when in doubt."""

import json
import weakref
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import JournalError
from airflow_kafka_groups.ledger.journal import journal
from airflow_kafka_groups.ledger.journal.history import DeletionHistory, RunRecord, fold
from airflow_kafka_groups.ledger.journal.journal import Journal
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Outcome, Reason, kept
from airflow_kafka_groups.storage import file_storage
from airflow_kafka_groups.storage.file_storage import FILES, Storage

pytestmark = pytest.mark.safety

NOW = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
EVERY = 4


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "CHECKPOINT_RUNS", EVERY)


def deleted(group_id: str) -> GroupOutcome:
    return GroupOutcome(group_id=group_id, outcome=Outcome.DELETED, code="safe", reason="deleted")


def runs(folder: Path, first: int, last: int, *, open_ones: tuple[int, ...] = ()) -> None:
    """Make runs that each delete a group, find one alive, and two of which are tries of one request."""
    of_cluster = Journal(folder, "c")
    for number in range(first, last + 1):
        at = NOW + timedelta(minutes=number)
        lease = {"group_id": f"lease{number % 3}"} if number % 2 else None
        header = {"run_id": f"r{number}", "request_id": f"q{number // 2}", "lease": lease}
        run = of_cluster.begin(header, at, after=of_cluster.current())
        names = [f"g{number}", "often"]
        run.intend(dict.fromkeys(names, "f"), at)
        left = GroupOutcome(group_id=f"alive{number - 1}", outcome=Outcome.GONE, code="gone", reason="it is gone")
        outcomes = [*map(deleted, names), left, kept(f"alive{number % 5}", Reason.HAS_MEMBERS, "1 member")]
        if number not in open_ones:
            run.conclude(outcomes, at)
            run.end(outcomes, {}, at)


def same(one: DeletionHistory, other: DeletionHistory) -> None:
    assert one.deletions() == other.deletions()
    assert one.lives() == other.lives()
    assert one.lives(gone=True) == other.lives(gone=True)
    assert one.lives() != one.lives(gone=True) or not one.lives()
    assert one.idle_resets() == other.idle_resets()
    for minutes in range(0, 20, 2):
        since = NOW + timedelta(minutes=minutes)
        assert one.leases(since) == other.leases(since)
    for number in range(8):
        assert one.idle_resets(f"q{number}") == other.idle_resets(f"q{number}")
    for group_id in ("g1", "g7", "alive3", "often", "nobody"):
        assert [run.number for run in one.of_group(group_id)] == [run.number for run in other.of_group(group_id)]


@pytest.mark.parametrize("count", [1, EVERY, EVERY + 1, EVERY + 2, 2 * EVERY + 1, 3 * EVERY + 2])
@pytest.mark.parametrize("open_ones", [(), (2,), (EVERY,), (1, EVERY + 1)], ids=str)
def test_the_answers_are_those_of_the_complete_chain(tmp_path: Path, count: int, open_ones: tuple[int, ...]) -> None:
    runs(tmp_path, 1, count, open_ones=open_ones)
    of_cluster = Journal(tmp_path, "c")
    current = of_cluster.current()
    same(current, of_cluster.read())
    assert (current.settled is not None) == (count > EVERY)


class Outcomes(dict[str, GroupOutcome]):
    """Outcomes of a run, of which is known whether they are still there."""


def test_a_checkpoint_of_many_runs_is_made_with_few_of_them_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By count: 10,000 runs of 2,000 groups are 20 million outcomes, and each next run would end for lack of memory."""
    monkeypatch.setattr(journal, "CHECKPOINT_RUNS", 60)
    runs(tmp_path, 1, 60)
    made, most = list[weakref.ref[Outcomes]](), 0

    def noted(*arguments: Any) -> RunRecord:
        nonlocal most
        run = fold(*arguments)
        outcomes = Outcomes(run.outcomes)
        made.append(weakref.ref(outcomes))
        most = max(most, sum(each() is not None for each in made))
        return replace(run, outcomes=outcomes)

    of_cluster = Journal(tmp_path, "c")
    before = of_cluster.current()
    monkeypatch.setattr(journal, "fold", noted)
    header = {"run_id": "r61", "request_id": "q61", "lease": None}
    begun = of_cluster.begin(header, NOW + timedelta(minutes=61), after=before)
    assert begun.number == 61
    assert of_cluster.current().settled is not None
    assert most <= 3 * file_storage.READERS


def test_runs_without_an_end_are_read_several_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read again for good, each by requests of its own: they meet here, or the wait is broken."""
    runs(tmp_path, 1, file_storage.READERS + EVERY + 1, open_ones=tuple(range(1, file_storage.READERS + 1)))
    meeting, real = Barrier(file_storage.READERS), Journal._read_numbered

    def met(of_cluster: Journal, number: int) -> RunRecord:
        meeting.wait(timeout=5)
        return real(of_cluster, number)

    monkeypatch.setattr(Journal, "_read_numbered", met)
    current = Journal(tmp_path, "c").current()
    assert [run.number for run in current.runs[: file_storage.READERS]] == list(range(1, file_storage.READERS + 1))


def test_only_the_runs_since_the_checkpoint_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs(tmp_path, 1, 3 * EVERY + 1)
    read: list[str] = []

    def noted(path: Path, *part: int) -> bytes | None:
        read.append(path.name)
        return Storage().read(path, *part)

    monkeypatch.setattr(FILES, "read", noted)
    Journal(tmp_path, "c").current().deletions()
    assert "00000001.json" not in read
    assert len(read) < 12


@pytest.mark.parametrize("open_ones", [(), (2,), (2 * EVERY,)], ids=str)
def test_of_a_group_only_the_runs_that_are_asked_for_are_read(
    tmp_path: Path, open_ones: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group that a dry run names each day is in hundreds of them after a year."""
    runs(tmp_path, 1, 4 * EVERY + 1, open_ones=open_ones)
    history, every = Journal(tmp_path, "c").current(), Journal(tmp_path, "c").read()
    read: list[str] = []

    def noted(path: Path, *part: int) -> bytes | None:
        read.append(str(path))
        return Storage().read(path, *part)

    monkeypatch.setattr(FILES, "read", noted)
    for newest in (1, 3, 100):
        wanted = [run.number for run in every.of_group("often")][-newest:]
        read.clear()
        assert [run.number for run in history.of_group("often", newest)] == wanted
        if newest < 100:
            assert len({path for path in read if "/ended.json" in path}) <= newest


def test_of_a_request_only_the_tries_whose_groups_others_dealt_with_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deletion that is mapped over a thousand groups is one request: each task read the records of all before it."""
    of_cluster = Journal(tmp_path, "c")
    for number in range(1, 3 * EVERY + 2):
        at = NOW + timedelta(minutes=number)
        other = number == 2
        header = {"run_id": f"r{number}", "request_id": "another" if other else "mapped"}
        run = of_cluster.begin(header, at, after=of_cluster.current())
        names = ["g1"] if other else [f"g{number}"]
        run.intend(dict.fromkeys(names, "f"), at)
        outcomes = [*map(deleted, names), kept(f"alive{number}", Reason.HAS_MEMBERS, "1 member")]
        run.conclude(outcomes, at)
        run.end(outcomes, {}, at)
    current, every = of_cluster.current(), of_cluster.read()
    read: list[str] = []

    def noted(path: Path, *part: int) -> bytes | None:
        read.append(str(path))
        return Storage().read(path, *part)

    monkeypatch.setattr(FILES, "read", noted)
    found = current.idle_resets("mapped")
    assert [path for path in read if path.endswith("ended.json") and "00000001" not in path] == []
    assert any("00000001/ended.json" in path for path in read), "g1 is the other request's, too"
    assert current.idle_resets("nobody") == {}
    assert found == every.idle_resets("mapped")
    assert current.idle_resets("another") == every.idle_resets("another")


def test_tries_whose_groups_others_dealt_with_are_read_several_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run before that kept all of the groups makes each of a thousand tries one of these."""
    of_cluster, names = Journal(tmp_path, "c"), [f"g{number}" for number in range(2 * EVERY)]
    for number, some in enumerate([names, *([name] for name in names), *[[]] * EVERY]):
        at = NOW + timedelta(minutes=number)
        header = {"run_id": f"r{number}", "request_id": "mapped" if number else "another"}
        run = of_cluster.begin(header, at, after=of_cluster.current())
        run.end([kept(name, Reason.HAS_MEMBERS, "1 member") for name in some], {}, at)
    meeting, real = Barrier(file_storage.READERS), Journal._read_ended

    def met(journal_: Journal, number: int) -> RunRecord:
        meeting.wait(timeout=5)
        return real(journal_, number)

    monkeypatch.setattr(Journal, "_read_ended", met)
    assert of_cluster.current().lives("mapped") == of_cluster.read().lives("mapped")


def test_what_an_open_run_did_after_the_checkpoint_counts(tmp_path: Path) -> None:
    of_cluster = Journal(tmp_path, "c")
    late = of_cluster.begin({"run_id": "late", "request_id": "q"}, NOW, after=of_cluster.current())
    runs(tmp_path, 2, EVERY + 3)
    late.intend({"afterwards": "f"}, NOW)
    assert of_cluster.current().settled is not None
    assert "afterwards" in of_cluster.current().deletions()


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob("_journal/c/checkpoints/*"))


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


@pytest.mark.parametrize("suffix", [".json", ".parquet"])
@pytest.mark.parametrize(
    "change",
    [Path.unlink, lambda path: _write(path, path.read_bytes().replace(b"1", b"2")), lambda path: _write(path, b"")],
    ids=["gone", "changed", "torn"],
)
def test_a_checkpoint_in_doubt_is_not_believed(tmp_path: Path, suffix: str, change: Callable[[Path], object]) -> None:
    runs(tmp_path, 1, EVERY + 2)
    (file,) = [path for path in _checkpoints(tmp_path) if path.suffix == suffix]
    change(file)
    of_cluster = Journal(tmp_path, "c")
    current = of_cluster.current()
    assert current.settled is None
    same(current, of_cluster.read())


@pytest.mark.parametrize("change", [{"requests": {}}, {"open": []}, {"leases": {}}], ids=str)
def test_a_checkpoint_that_is_sound_and_another_is_not_believed(tmp_path: Path, change: dict[str, object]) -> None:
    """Nothing in it is damaged, its table has its seal: only the next run's first entry tells."""
    runs(tmp_path, 1, EVERY + 2, open_ones=(2,))
    (file,) = [path for path in _checkpoints(tmp_path) if path.suffix == ".json"]
    file.write_text(json.dumps({**json.loads(file.read_bytes()), **change}))
    of_cluster = Journal(tmp_path, "c")
    assert of_cluster.current().settled is None
    same(of_cluster.current(), of_cluster.read())


def test_a_run_before_the_checkpoint_that_is_gone_is_found_out_at_once(tmp_path: Path) -> None:
    runs(tmp_path, 1, EVERY + 2)
    (tmp_path / "_journal" / "c" / "00000002.json").unlink()
    with pytest.raises(JournalError, match="gap"):
        Journal(tmp_path, "c").current()


def test_one_that_was_changed_is_found_out_when_the_next_checkpoint_is_made(tmp_path: Path) -> None:
    runs(tmp_path, 1, EVERY + 1)
    ended = tmp_path / "_journal" / "c" / "00000002" / "ended.json"
    ended.write_bytes(ended.read_bytes().replace(b'"g2"', b'"gX"'))
    of_cluster = Journal(tmp_path, "c")
    assert "g2" in of_cluster.current().deletions(), "the checkpoint still says what was"
    with pytest.raises(JournalError, match="changed"):
        runs(tmp_path, EVERY + 2, 2 * EVERY + 2)


def test_a_listing_that_is_late_costs_a_complete_reading_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(tmp_path, 1, EVERY + 3)
    expected = Journal(tmp_path, "c").read()
    for hidden in (range(0), range(1, 4), range(1, EVERY + 2)):
        names = [f"{number:08}.json" for number in hidden]
        monkeypatch.setattr(FILES, "names", lambda folder, names=names: names if folder.name == "c" else [])
        same(Journal(tmp_path, "c").current(), expected)
