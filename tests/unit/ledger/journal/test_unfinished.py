"""Which runs may still delete, where the journal is long: a restore asks twice a second while it waits."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.ledger.journal import journal
from airflow_kafka_groups.storage.file_storage import FILES, Storage
from tests.unit.ledger.journal.test_journal import NOW, begin, deleted, header, journal_in

pytestmark = pytest.mark.safety


@pytest.fixture(autouse=True)
def checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "CHECKPOINT_RUNS", 10)


def dry_runs(path: Path, count: int) -> None:
    for seconds in range(count):
        of_cluster, at = journal_in(path), NOW + timedelta(seconds=seconds)
        run = of_cluster.begin({**header(), "dry_run": True}, at, after=of_cluster.current())
        run.end([], {}, at)


def intents_of(path: Path, hours: int) -> list[list[str]]:
    return [list(run.intents) for run in journal_in(path).unfinished_since(NOW + timedelta(hours=hours))]


@pytest.mark.parametrize("deletes", [False, True], ids=["dry runs only", "one that deletes, too"])
def test_of_many_dry_runs_those_that_a_checkpoint_sums_up_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deletes: bool
) -> None:
    dry_runs(tmp_path, 5)
    if deletes:
        begin(tmp_path).intend({"a": "f"}, NOW)
    dry_runs(tmp_path, 60)
    read: list[str] = []

    def noted(path: Any, *part: int) -> bytes | None:
        read.append(path.name)
        return Storage().read(path, *part)

    monkeypatch.setattr(FILES, "read", noted)
    assert intents_of(tmp_path, 0) == ([["a"]] if deletes else [])
    assert len(read) < 30


def test_a_run_that_ended_after_the_checkpoint_is_no_more_than_one_that_ended_before(tmp_path: Path) -> None:
    ended, goes_on = begin(tmp_path), begin(tmp_path)
    ended.intend({"a": "f"}, NOW)
    goes_on.intend({"b": "f"}, NOW)
    dry_runs(tmp_path, 30)
    ended.conclude([deleted("a")], NOW)
    ended.end([deleted("a")], {}, NOW)
    assert intents_of(tmp_path, 0) == [["b"]]


def test_what_a_run_has_followed_for_a_day_that_may_delete_deletes_no_more(tmp_path: Path) -> None:
    for name in "ab":
        begin(tmp_path).intend({name: "f"}, NOW)
    dry_runs(tmp_path, 30)
    assert intents_of(tmp_path, 2) == [["a"], ["b"]]
    assert intents_of(tmp_path, 25) == [["b"]]


@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_where_the_checkpoint_is_in_doubt_all_runs_are_read(tmp_path: Path, damage: str) -> None:
    begin(tmp_path).intend({"a": "f"}, NOW)
    dry_runs(tmp_path, 40)
    for entry in (tmp_path / "_journal").glob("*/checkpoints/*.json"):
        content = entry.read_bytes().replace(b'"open":[1]', b'"open":[]')
        entry.unlink()
        if damage == "changed":
            entry.write_bytes(content)
    assert intents_of(tmp_path, 0) == [["a"]]
