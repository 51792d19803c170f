"""The records of keep-alive runs: which file is read for what, and what a damaged one means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier

import pytest

from airflow_kafka_groups.exceptions import MaintenanceError
from airflow_kafka_groups.ledger.keep_alive_records import WHAT, KeptAlive
from airflow_kafka_groups.ledger.life.wanted import KeepAliveRecords, last_kept
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.storage import paths as ids
from airflow_kafka_groups.storage.file_storage import FILES, READERS
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import Ticking
from tests.fakes.refusing_path import refuse_listing

FIRST, SECOND = "20260301T120000Z-00000001", "20260302T120000Z-00000002"
AT = {run: datetime.strptime(run[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC) for run in (FIRST, SECOND)}
UNTIL = "2026-03-09T12:00:00+00:00"
BEFORE = (
    b'{"format": 1, "run_id": "%s", "what": "keep-alive", "dry_run": false, "cluster": "prod", '
    b'"kept_until": "2026-03-09T12:00:00+00:00", "groups": [\n{"group_id": "a", "before": [{"topic": "t", '
    b'"partitions": [0], "offsets": [5], "leader_epochs": [3], "metadata": null}], "after": [], "skipped": {}, '
    b'"kept": null},\n{"group_id": "b", "before": [], "after": [], "skipped": {}, "kept": "it has members"}\n]}\n'
)
RESULT = (
    b'{"format": 1, "run_id": "%s", "what": "keep-alive", "dry_run": false, "cluster": "prod", '
    b'"kept_until": "2026-03-09T12:00:00+00:00", "counts": {}, "groups": [\n{"group_id": "a", "outcome": "changed", '
    b'"reason": "", "partitions": 1, "skipped": {}},\n{"group_id": "b", "outcome": "kept", "reason": "", '
    b'"partitions": 0, "skipped": {}}\n]}\n'
)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    (tmp_path / "prod" / "changes").mkdir(parents=True)
    return Layout(tmp_path, "prod")


def write(layout: Layout, run: str, part: str, content: bytes, tag: str = "keep-alive-") -> None:
    (layout.root / "changes").mkdir(parents=True, exist_ok=True)
    (layout.root / "changes" / f"{run}-{tag}{part}.json").write_bytes(content.replace(b"%s", run.encode()))


def test_without_any_run_nothing_is_known(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "prod")
    assert (last_kept(layout, AT[FIRST]), KeepAliveRecords(layout).read()) == ({}, {})


def test_the_latest_verified_run_counts_for_the_brokers_clock(layout: Layout) -> None:
    for run in (FIRST, SECOND):
        write(layout, run, "before", BEFORE)
        write(layout, run, "result", RESULT)
    assert last_kept(layout, AT[FIRST]) == {"a": AT[SECOND]}
    assert last_kept(layout, AT[SECOND] + timedelta(microseconds=1)) == {"a": AT[SECOND]}, "ids have no microseconds"
    assert last_kept(layout, AT[SECOND] + timedelta(seconds=1)) == {}


def test_a_run_that_does_not_say_on_which_cluster_it_was_proves_nothing_of_this_one(layout: Layout) -> None:
    """The folder's connection may have led to another cluster then."""
    write(layout, FIRST, "before", BEFORE)
    write(layout, FIRST, "result", RESULT)
    assert last_kept(layout, AT[FIRST], "id") == {}
    write(layout, SECOND, "result", RESULT.replace(b'"what"', b'"kafka_cluster_id": "id", "what"'))
    assert last_kept(layout, AT[FIRST], "id") == {"a": AT[SECOND]}


def test_a_record_whose_name_has_no_time_stops_a_plan_with_its_name(layout: Layout) -> None:
    """And ends a deletion in order: an error of another kind would leave its groups possibly deleted."""
    run = "20260299T120000Z-00000001"
    for part, content in (("before", BEFORE), ("result", RESULT)):
        write(layout, run, part, content)
    with pytest.raises(MaintenanceError, match=f"{run}-keep-alive-before.json is not the record of a keep-alive run"):
        KeepAliveRecords(layout).read()
    assert last_kept(layout, AT[FIRST]) == {}


def test_records_are_read_several_at_once(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object store takes its time for each, and a cluster has thousands: they meet here, or the wait is broken."""
    meeting, real = Barrier(READERS), FILES.read
    for number in range(2 * READERS):
        run = f"20260301T1200{number:02}Z-00000001"
        write(layout, run, "before", BEFORE)
        write(layout, run, "result", RESULT)

    def met(path: Path) -> bytes | None:
        meeting.wait(timeout=5)
        return real(path)

    monkeypatch.setattr(FILES, "read", met)
    assert set(KeepAliveRecords(layout).read()) == {"a", "b"}
    assert last_kept(layout, AT[FIRST]) == {"a": AT[FIRST] + timedelta(seconds=2 * READERS - 1)}


def test_records_that_were_read_cost_a_deletion_their_names_only(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By count: before and after each intent, 100,000 times were parsed, for seconds of the 15 that a reading has."""
    for number in range(20):
        write(layout, f"20260301T1200{number:02}Z-00000001", "before", BEFORE)
    records = KeepAliveRecords(layout)
    assert set(records.read()) == {"a", "b"}
    parsed = list[str]()
    real = ids.time_of

    def noted(id_: str) -> datetime:
        parsed.append(id_)
        return real(id_)

    monkeypatch.setattr("airflow_kafka_groups.ledger.life.wanted.time_of", noted)
    assert (records.read_new(), parsed) == ({}, [])
    write(layout, SECOND, "before", BEFORE)
    assert (set(records.read_new()), parsed) == ({"a", "b"}, [SECOND])


def test_an_interrupted_run_proves_no_time_but_says_what_is_to_stay(layout: Layout) -> None:
    write(layout, FIRST, "before", BEFORE)
    assert last_kept(layout, AT[FIRST]) == {}
    kept = KeptAlive(AT[FIRST], datetime.fromisoformat(UNTIL))
    assert KeepAliveRecords(layout).read() == {"a": kept, "b": kept}


def test_other_changes_and_dry_runs_are_not_read(layout: Layout) -> None:
    write(layout, FIRST, "before", b"{", tag="")
    write(layout, FIRST, "result", b"{", tag="")
    write(layout, SECOND, "result", RESULT.replace(b'"changed"', b'"would_change"'))
    assert (last_kept(layout, AT[FIRST]), KeepAliveRecords(layout).read()) == ({}, {})


RESTORED = BEFORE.replace(b'"what": "keep-alive"', b'"what": "restore"').replace(b"kept_until", b"kept_at")


def test_a_restore_says_since_when_its_groups_are_wanted_and_keeps_nothing_alive(layout: Layout) -> None:
    write(layout, FIRST, "before", RESTORED, tag="restore-")
    write(layout, FIRST, "result", RESULT, tag="restore-")
    wanted_at = datetime.fromisoformat(UNTIL)  # later than the run: the worker's clock was behind
    kept = KeptAlive(wanted_at, wanted_at, "a restore")
    assert (last_kept(layout, AT[FIRST]), KeepAliveRecords(layout).read()) == ({}, {"a": kept, "b": kept})
    assert KeepAliveRecords(layout, kinds=(WHAT,)).read() == {}

    write(layout, SECOND, "before", BEFORE)
    assert KeepAliveRecords(layout).read()["a"] == kept, "the later of both, to the later end"


@pytest.mark.parametrize(
    "damaged", [RESTORED[:-4], RESTORED.replace(UNTIL.encode(), b"soon"), RESTORED.replace(b"kept_at", b"kept_by")]
)
def test_a_damaged_record_of_a_restore_stops_a_plan(layout: Layout, damaged: bytes) -> None:
    write(layout, FIRST, "before", damaged, tag="restore-")
    with pytest.raises(MaintenanceError, match="a restore"):
        KeepAliveRecords(layout).read()


@pytest.mark.parametrize(
    "damaged",
    [
        b"{",
        BEFORE[:-4],
        BEFORE.replace(b'"format": 1', b'"format": 9'),
        BEFORE.replace(UNTIL.encode(), b"soon"),
        BEFORE.replace(b'"group_id": "b", ', b""),
    ],
)
def test_a_damaged_record_stops_a_plan_and_does_not_stop_keeping_alive(layout: Layout, damaged: bytes) -> None:
    write(layout, FIRST, "before", damaged)
    write(layout, FIRST, "result", damaged)
    with pytest.raises(MaintenanceError):
        KeepAliveRecords(layout).read()
    assert last_kept(layout, AT[FIRST]) == {}


def other_folder(layout: Layout) -> Layout:
    """Write the record of another connection to the same cluster, and a file beside the folders."""
    other = Layout(layout.base, "standby")
    (layout.base / "standby" / "changes").mkdir(parents=True)
    write(other, FIRST, "before", BEFORE.replace(b'"what"', b'"kafka_cluster_id": "k", "what"'))
    (layout.base / "policy.yaml").write_bytes(b"version: 1\n")
    return other


def test_a_storage_that_denies_what_exists_hides_no_run(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Object stores answer ``exists`` with no where they failed."""
    other_folder(layout)
    monkeypatch.setattr(Path, "exists", lambda self: False)
    assert set(KeepAliveRecords(layout, "k").read()) == {"a", "b"}
    assert KeepAliveRecords(layout, "another").read() == {}


@pytest.mark.parametrize(("shows", "found"), [("k", True), ("another", False), ("nothing", True), ("damaged", True)])
async def test_the_first_run_of_another_connection_counts_during_a_deletion(
    layout: Layout, shows: str, found: bool
) -> None:
    other, admin = Layout(layout.base, "standby"), FakeAdmin()
    (other.root / "changes").mkdir(parents=True)
    if shows != "nothing":
        admin.cluster = shows
        taken = await take_snapshot(admin, other, now=Ticking())
        if shows == "damaged":
            other.manifest(taken.snapshot_id).write_bytes(b"{")
    records = KeepAliveRecords(layout, "k")
    assert records.read() == {}
    write(other, FIRST, "before", RESTORED.replace(b'"what"', b'"kafka_cluster_id": "k", "what"'), tag="restore-")
    assert set(records.read_new()) == ({"a", "b"} if found else set())
    assert records.read_new() == {}, "what was read counts from the first reading on"


@pytest.mark.safety
def test_the_first_run_ever_of_another_connection_counts_during_a_deletion(layout: Layout) -> None:
    """Its folder is made by that run: no snapshot was taken by that connection before, and no run recorded."""
    records = KeepAliveRecords(layout, "k")
    assert records.read() == {}
    assert records.read_new() == {}
    other_folder(layout)
    assert set(records.read_new()) == {"a", "b"}
    write(
        Layout(layout.base, "standby"), SECOND, "before", BEFORE.replace(b'"what"', b'"kafka_cluster_id": "k", "what"')
    )
    assert set(records.read_new()) == {"a", "b"}
    assert records.read_new() == {}


@pytest.mark.safety
@pytest.mark.parametrize(("shows", "found"), [("k", True), ("another", False), ("nothing", True), (None, True)])
@pytest.mark.parametrize("written", [b'"kafka_cluster_id": null, "what"', b'"what"'], ids=["null", "no field"])
async def test_a_record_that_does_not_name_its_cluster_may_be_of_this_one(
    layout: Layout, written: bytes, shows: str | None, found: bool
) -> None:
    """Brokers that start may not know their cluster's id yet. The newest snapshot beside it says what is likely."""
    other, admin = Layout(layout.base, "standby"), FakeAdmin()
    (other.root / "changes").mkdir(parents=True)
    write(other, FIRST, "before", BEFORE.replace(b'"what"', written))
    if shows != "nothing":
        admin.cluster = shows
        await take_snapshot(admin, other, now=Ticking())
    assert set(KeepAliveRecords(layout, "k").read()) == ({"a", "b"} if found else set())


def test_a_folder_that_cannot_be_listed_stops_a_plan(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    other = other_folder(layout)
    refuse_listing(monkeypatch, other.root)
    with pytest.raises(MaintenanceError, match="standby"):
        KeepAliveRecords(layout, "k").read()


@pytest.mark.safety
async def test_a_folder_whose_newest_snapshot_names_no_cluster_is_looked_into_during_a_deletion(layout: Layout) -> None:
    """It was taken while the brokers started: nobody knows of which cluster it is, so it may be of this one."""
    other, admin = Layout(layout.base, "standby"), FakeAdmin()
    admin.cluster = None
    await take_snapshot(admin, other, now=Ticking())
    records = KeepAliveRecords(layout, "k")
    assert records.read() == {}
    other_folder(layout)
    assert set(records.read_new()) == {"a", "b"}
