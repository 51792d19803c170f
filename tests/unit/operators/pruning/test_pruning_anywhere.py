"""Pruning of files works wherever the storage folder is, and whatever somebody has put into it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.file_pruning import FileSet
from airflow_kafka_groups.operators.pruning import PruneFilesOperator
from tests.unit.operators import scene
from tests.unit.operators.pruning.test_what_pruning_keeps import write

OLD = "20200101T000000Z-00000001"


def prune(storage: Path) -> dict[str, Any]:
    found: dict[str, Any] = PruneFilesOperator(
        task_id="p", storage_path=str(storage), cluster=scene.CLUSTER, keep_newest=1, dry_run=False
    ).execute({})
    return found


def new_id() -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-00000002"


@pytest.mark.parametrize("above", ["kafka", "backups/kafka", "plans/kafka"])
def test_a_plan_or_a_backup_alone_goes_whatever_the_folders_above_are_called(tmp_path: Path, above: str) -> None:
    storage = tmp_path / above
    times = {"expires_at": "2020-01-02T00:00:00+00:00"}
    for number, plan_id in enumerate((OLD, OLD.replace("0101T", "0102T"), new_id())):
        if number != 1:
            write(storage, f"plans/{plan_id}.parquet", {})
            write(storage, f"plans/{plan_id}.json", {"plan_id": plan_id, **times})
            continue
        write(storage, f"backups/{plan_id}-0a1b2c3d.parquet", {})
        write(storage, f"backups/{plan_id}.json", {"plan_id": plan_id})
    found = prune(storage)
    assert found["foreign"] == {}
    assert found["removed"]["cleanup"] == 2


def keeps_only(odd: Path, storage: Path) -> None:
    """Check that a pruning keeps an odd entry, and removes another old set."""
    listing = write(storage, f"listings/{OLD}.json", {})
    for kind in ("listings", "manifests", "plans"):
        newest = new_id()
        ids = {"snapshot_id": newest, "plan_id": newest, "expires_at": "2020-01-02T00:00:00+00:00"}
        write(storage, f"{kind}/{newest}.json", ids)
    found = prune(storage)
    assert odd.exists()
    assert not listing.exists()
    assert len(found["foreign"]) == 1


@pytest.mark.parametrize("where", [f"data/{OLD}", f"tables/observations/snapshot_id={OLD}"])
def test_a_file_where_a_folder_belongs_keeps_its_set_and_not_all_others(tmp_path: Path, where: str) -> None:
    """A copy tool that writes no folders, or an empty object by which a store shows one, leaves such a file."""
    odd = write(tmp_path, where, {})
    keeps_only(odd, tmp_path)


@pytest.mark.parametrize("where", [f"reports/{OLD}.html", f"members/{OLD}.parquet", f"backups/{OLD}-0a1b2c3d.parquet"])
def test_a_folder_where_a_file_belongs_keeps_its_set_and_not_all_others(tmp_path: Path, where: str) -> None:
    odd = tmp_path / scene.CLUSTER / where
    odd.mkdir(parents=True)
    write(tmp_path, f"backups/{OLD}.json", {"plan_id": OLD})
    write(tmp_path, f"manifests/{OLD}.json", {"snapshot_id": OLD})
    keeps_only(odd, tmp_path)


LEFT = ".0a1b2c3d.tmp"


@pytest.mark.parametrize(
    "where",
    [
        f"manifests/.{OLD}.json{LEFT}",
        f"members/.{OLD}.parquet{LEFT}",
        f"plans/.{OLD}.parquet{LEFT}",
        f"backups/.{OLD}-0a1b2c3d.parquet{LEFT}",
        f"reports/.{OLD}.html{LEFT}",
        f"changes/.{OLD}-before.json{LEFT}",
        f"listings/.{OLD}.json{LEFT}",
    ],
)
def test_what_a_killed_process_was_about_to_write_is_not_kept_for_ever(tmp_path: Path, where: str) -> None:
    """A backup that was being written may be hundreds of megabytes; nobody ever reads what is left of it."""
    left = tmp_path / scene.CLUSTER / where
    left.parent.mkdir(parents=True)
    left.write_text("to")
    recent = left.with_name(left.name.replace(OLD, new_id()))
    recent.write_text("to")
    foreign = left.with_name(f".{OLD}.notes{LEFT}")
    foreign.write_text("mine")
    newest = new_id()
    write(tmp_path, f"manifests/{newest}.json", {"snapshot_id": newest})
    assert prune(tmp_path)["foreign"] == {}
    assert not left.exists()
    assert recent.exists(), "its process may be writing still"
    assert foreign.exists()


@pytest.mark.safety
def test_what_a_killed_process_has_left_is_not_the_newest_of_a_kind(tmp_path: Path) -> None:
    backup = OLD
    write(tmp_path, f"backups/{backup}.json", {"plan_id": backup})
    left = write(tmp_path, f"plans/.{new_id()}.json{LEFT}", {})
    newest = new_id()
    write(tmp_path, f"manifests/{newest}.json", {"snapshot_id": newest})
    assert prune(tmp_path)["removed"]["cleanup"] == 0
    assert left.exists()


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_two_prunings_at_once_both_come_to_their_end(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the other one has removed since this one looked is no error of the storage."""
    name = f"listings/{OLD}.json" if kind == "file" else f"data/{OLD}/part-00000.parquet"
    gone = write(tmp_path, name, {})
    newest = new_id()
    for where in ("manifests", "listings"):
        write(tmp_path, f"{where}/{newest}.json", {"snapshot_id": newest})
    looked: list[str] = []
    look_into = FileSet.look_into

    def look_while_another_removes(file_set: FileSet, cluster: str) -> None:
        look_into(file_set, cluster)
        looked.append(file_set.id)
        gone.unlink()
        if kind == "folder":
            gone.parent.rmdir()

    monkeypatch.setattr(FileSet, "look_into", look_while_another_removes)
    prune(tmp_path)
    assert looked == [OLD]


ATTEMPT = "_temporary/0/_temporary/attempt_202001010000007_0003_m_000000_3"
PART = "part-00000-5f0c2b1e-0a5d-4d3c-9a55-0f4d2f6f2a10-c000.snappy.parquet"


@pytest.mark.parametrize(
    "left", [f"{ATTEMPT}/{PART}", f"{ATTEMPT}/.{PART}.crc", f"_temporary/0/task_202001010000007_0003_m_000000/{PART}"]
)
def test_what_a_killed_job_was_about_to_write_holds_up_no_pruning(tmp_path: Path, left: str) -> None:
    """Behind a set that stays, all later snapshots stay, too: a single killed driver would end the pruning for good."""
    folder = f"tables/verdicts/snapshot_id={OLD}"
    torn = write(tmp_path, f"{folder}/{left}", {})
    later = OLD.replace("0101T", "0102T")
    for snapshot_id in (OLD, later, new_id()):
        write(tmp_path, f"manifests/{snapshot_id}.json", {"snapshot_id": snapshot_id})
    found = prune(tmp_path)
    assert (found["foreign"], found["removed"]["snapshot"]) == ({}, 2)
    assert not torn.exists()
    assert not (tmp_path / scene.CLUSTER / folder).exists()
