"""The groups that keep-alive runs and restores want to stay, by the log of their cluster."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import JournalError
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.life import snapshot_signs
from airflow_kafka_groups.ledger.records import WHAT, KeptAlive, Verified, log_change
from airflow_kafka_groups.observe import cluster_log
from airflow_kafka_groups.observe.cluster_log import ClusterLog
from airflow_kafka_groups.storage.file_storage import FILES, Storage
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.groups import CLUSTER_ID, NOW
from tests.fakes.wanted import want

pytestmark = pytest.mark.safety

DAY, WEEK = timedelta(days=1), timedelta(days=7)
KEPT, RESTORED = KeptAlive(NOW, NOW + WEEK), KeptAlive(NOW, NOW, "a restore")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path, "prod")


@pytest.fixture
def ledger(layout: Layout) -> Ledger:
    return Ledger(layout, CLUSTER_ID)


@pytest.fixture
def other(tmp_path: Path) -> Layout:
    """The folder of another connection."""
    return Layout(tmp_path, "standby")


def tables(tmp_path: Path) -> list[Path]:
    return [*tmp_path.glob("_journal/*/signs.parquet")]


def test_without_any_run_nothing_is_known_and_nothing_written(tmp_path: Path, ledger: Ledger) -> None:
    assert (ledger.wanted(), ledger.wanted_since(), ledger.last_kept(NOW)) == ({}, {}, {})
    assert [*tmp_path.iterdir()] == []


def test_a_run_of_any_connection_says_what_is_to_stay_also_one_that_was_interrupted(
    ledger: Ledger, other: Layout
) -> None:
    want(other, "a", "b", at=NOW, lasts=WEEK)
    want(other, "c", at=NOW, what="restore")
    want(other, "d", at=NOW, what="copy")
    change = KeptAlive(NOW, NOW, "a change (copy)")
    assert ledger.wanted() == {"a": KEPT, "b": KEPT, "c": RESTORED, "d": change}
    assert ledger.wanted(WHAT) == {"a": KEPT, "b": KEPT}
    assert ledger.last_kept(NOW) == {}, "nothing was verified"


def test_runs_on_another_cluster_say_nothing_of_this_one(ledger: Ledger, layout: Layout) -> None:
    want(layout, "a", at=NOW, cluster_id="another")
    log_change(layout, "another", Verified(at=NOW, groups=("a",)))
    assert (ledger.wanted(), ledger.last_kept(NOW)) == ({}, {})


def test_a_run_on_a_cluster_that_does_not_know_its_id_yet_cannot_be_logged(layout: Layout) -> None:
    with pytest.raises(JournalError, match="id"):
        want(layout, "a", at=NOW, cluster_id=None)


@pytest.mark.parametrize("order", [1, -1])
def test_the_later_of_two_runs_counts_to_the_later_end(ledger: Ledger, layout: Layout, order: int) -> None:
    runs = [(NOW - DAY, WEEK, WHAT), (NOW, timedelta(0), "restore")][::order]
    for at, lasts, what in runs:
        want(layout, "a", at=at, lasts=lasts, what=what)
    assert ledger.wanted() == {"a": KeptAlive(NOW, NOW + 6 * DAY, "a restore", own_end=NOW)}


@pytest.mark.parametrize("lost", [False, True])
def test_all_is_known_still_where_the_table_is_lost(
    tmp_path: Path, ledger: Ledger, layout: Layout, *, lost: bool
) -> None:
    want(layout, "a", at=NOW, lasts=WEEK)
    want(layout, "a", at=NOW + DAY, lasts=DAY)
    log_change(layout, CLUSTER_ID, Verified(at=NOW, groups=("a",)))
    known = ledger.wanted(), ledger.last_kept(NOW)
    assert known == ({"a": KeptAlive(NOW + DAY, NOW + WEEK, own_end=NOW + 2 * DAY)}, {"a": NOW})
    assert ledger.known().kept_alive == known[0], "which folds it into the table"
    (table,) = tables(tmp_path)
    if lost:
        table.unlink()
    assert (ledger.wanted(), ledger.last_kept(NOW)) == known


def test_the_latest_verified_run_counts_for_the_brokers_clock(ledger: Ledger, layout: Layout) -> None:
    for at in (NOW, NOW + DAY, NOW - DAY):
        log_change(layout, CLUSTER_ID, Verified(at=at, groups=("a",)))
    assert ledger.last_kept(NOW) == {"a": NOW + DAY}
    assert ledger.last_kept(NOW + WEEK) == {}


def test_runs_that_begin_during_a_deletion_are_asked_for_by_their_names_alone(
    ledger: Ledger, other: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By count: before and after each intent, of a cluster with ten thousand entries."""
    want(other, "a", at=NOW)
    assert ledger.wanted().keys() == {"a"}
    listed, real = list[Path](), Storage.names

    def noted(storage: Storage, folder: Path) -> list[str]:
        listed.append(folder)
        return real(storage, folder)

    monkeypatch.setattr(type(FILES), "names", noted)
    assert (ledger.wanted_since(), listed) == ({}, [])
    monkeypatch.undo()
    want(other, "b", at=NOW)
    assert ledger.known().kept_alive.keys() == {"a", "b"}, "another question, which reads the log as well"
    assert ledger.wanted_since().keys() == {"b"}
    assert ledger.wanted_since() == {}, "what was read counts from the first reading on"
    assert ledger.wanted().keys() == {"a", "b"}


def test_an_entry_of_a_later_version_stops_whoever_decides(ledger: Ledger, layout: Layout) -> None:
    """It may protect a group in a way that nobody here knows."""
    want(layout, "a", at=NOW)
    assert ledger.wanted().keys() == {"a"}
    ClusterLog(layout.base, CLUSTER_ID).add({"kind": "held", "groups": ["b"]})
    for ask in (ledger.wanted_since, ledger.wanted, ledger.known, lambda: ledger.last_kept(NOW)):
        with pytest.raises(JournalError, match="'held', of a later version"):
            ask()


def test_a_table_of_a_later_version_hides_no_entry_that_is_not_known(
    ledger: Ledger, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    ClusterLog(layout.base, CLUSTER_ID).add({"kind": "held", "groups": ["b"]})
    with monkeypatch.context() as later:
        later.setattr(cluster_log, "KINDS", (*cluster_log.KINDS, "held"))
        later.setattr(snapshot_signs, "_VERSION", {**snapshot_signs._VERSION, "kinds": ["held"]})
        ledger.known()  # which folds it into the table
    with pytest.raises(JournalError, match="'held', of a later version"):
        ledger.known()


@pytest.mark.parametrize("damage", [b"{", b'{"format": 1, "kind": "change", "previous": null, "at": "soon"}'])
def test_an_entry_that_is_damaged_stops_whoever_decides(
    tmp_path: Path, ledger: Ledger, layout: Layout, damage: bytes
) -> None:
    want(layout, "a", at=NOW)
    (entry,) = tmp_path.glob("_journal/*/log/*.json")
    entry.write_bytes(damage)
    for ask in (ledger.wanted, ledger.known, lambda: ledger.last_kept(NOW)):
        with pytest.raises(JournalError, match="damaged"):
            ask()
