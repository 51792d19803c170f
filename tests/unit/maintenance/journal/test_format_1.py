"""Journals of versions that wrote format 1, byte by byte: read as they were, and continued."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import JournalError
from airflow_kafka_groups.maintenance.deletion.audit import read_end
from airflow_kafka_groups.maintenance.deletion.outcomes import Outcome
from airflow_kafka_groups.maintenance.journal.journal import Journal

# fmt: off
FILES = {
    "00000001/000001.json": (
        b'{"format":1,"kind":"intent","at":"2026-11-01T12:00:00+00:00","fingerprints":{"a":"f1","b":"f2"}'
        b',"lease_generation":7,"intents":{"a":null,"b":null},"previous":"f0734aa1903402cb6382f00810999ae'
        b'e29f3e482ef25f473fee8ab8a54b24353"}\n'
    ),
    "00000001/000002.json": (
        b'{"format":1,"kind":"outcome","at":"2026-11-01T12:00:02+00:00","outcomes":[{"group_id":"a","outc'
        b'ome":"deleted","code":"safe","reason":"deleted","at":"2026-11-01T12:00:02+00:00"},{"group_id":"'
        b'b","outcome":"kept","code":"came_back","reason":"it came back","at":"2026-11-01T12:00:02+00:00"'
        b'}],"previous":"c98cb14613f5cee5f23e45a10d6fb2ff957465701f8748f11e60ed504631ec5d"}\n'
    ),
    "00000001/ended.json": (
        b'{"format":1,"run_id":"20261101T120000Z-000000aa","request_id":"p1","counts":{"deleted":1},"kind'
        b'":"ended","at":"2026-11-01T12:00:03+00:00","begun":"f0734aa1903402cb6382f00810999aee29f3e482ef2'
        b'5f473fee8ab8a54b24353","entries":2,"head":"25f2ce5b2b2f2559104cd34c95b981370b90944bf9c1e468349a'
        b'b65a1f5a0cec","intents":{"a":"2026-11-01T12:00:00+00:00","b":"2026-11-01T12:00:00+00:00"},"outc'
        b'omes":[{"group_id":"a","outcome":"deleted","code":"safe","reason":"deleted","at":"2026-11-01T12'
        b':00:02+00:00"},{"group_id":"b","outcome":"kept","code":"came_back","reason":"it came back","at"'
        b':"2026-11-01T12:00:02+00:00"}]}\n'
    ),
    "00000001.json": (
        b'{"format":1,"kind":"begun","at":"2026-11-01T12:00:00+00:00","previous":null,"run_id":"20261101T'
        b'120000Z-000000aa","request_id":"p1","plan_id":"p1","kafka_cluster_id":"c"}\n'
    ),
    "00000002/000001.json": (
        b'{"format":1,"kind":"outcome","at":"2026-11-02T12:00:00+00:00","outcomes":[{"group_id":"m","outc'
        b'ome":"kept","code":"moved","reason":"it moved","at":"2026-11-02T12:00:00+00:00"}],"previous":"e'
        b'0f1c69f0ce2a3c5fcc4736719654f0def825f5eece694ccdf7b9ef340006b1d"}\n'
    ),
    "00000002/000002.json": (
        b'{"format":1,"kind":"intent","at":"2026-11-02T12:00:00+00:00","fingerprints":{"c":"f3"},"lease_g'
        b'eneration":null,"intents":{"c":null},"previous":"ff7bb709714266048dae88a0028ccc42214374649a5ab0'
        b'd9038244779ebf6001"}\n'
    ),
    "00000002.json": (
        b'{"format":1,"kind":"begun","at":"2026-11-02T12:00:00+00:00","previous":{"begun":"f0734aa1903402'
        b'cb6382f00810999aee29f3e482ef25f473fee8ab8a54b24353","ended":"d78964df0cbc6066477e4e6b179f896521'
        b'fa13eaef7dacf389287abae3986fe2"},"run_id":"20261102T120000Z-000000bb","request_id":"p2","plan_i'
        b'd":"p2","kafka_cluster_id":"c"}\n'
    ),
}
# fmt: on


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    for name, content in FILES.items():
        path = tmp_path / "_journal" / "c" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return Journal(tmp_path, "c")


def test_it_says_what_it_said(journal: Journal) -> None:
    history = journal.current()
    found = {item.group_id: (item.outcome, item.at.isoformat()) for item in history.deletions().values()}
    assert found == {
        "a": (Outcome.DELETED, "2026-11-01T12:00:02+00:00"),
        "c": (Outcome.UNKNOWN, "2026-11-02T12:00:00+00:00"),
    }
    assert {life.group_id: life.code for life in history.lives().values()} == {"b": "came_back", "m": "moved"}
    assert [run.run_id for run in history.runs if run.request_id == "p1"] == ["20261101T120000Z-000000aa"]
    assert history.runs[0].ended is not None
    assert history.runs[1].ended is None


def test_a_run_of_this_version_continues_it(journal: Journal) -> None:
    at = datetime(2026, 11, 3, tzinfo=UTC)
    run = journal.begin({"run_id": "r", "request_id": "p3"}, at, after=journal.current())
    run.intend({"d": "f"}, at)
    assert set(journal.read().deletions()) == {"a", "c", "d"}


def test_a_record_of_format_1_is_read(journal: Journal) -> None:
    record, outcomes = read_end(journal.folder / "00000001" / "ended.json")
    assert record["counts"] == {"deleted": 1}
    assert [(item.group_id, item.outcome.value) for item in outcomes] == [("a", "deleted"), ("b", "kept")]


@pytest.mark.parametrize("name", sorted(name for name in FILES if not name.startswith("00000001/0")))
def test_a_changed_byte_is_found_out(journal: Journal, name: str) -> None:
    path = Path(str(journal.folder)) / name
    path.write_bytes(path.read_bytes().replace(b'"p', b'"q').replace(b'"kind"', b'"kin"', 1))
    with pytest.raises(JournalError):
        journal.current()
