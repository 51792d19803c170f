"""Each snapshot is reduced once; in any doubt again, from its rows. Killed jobs and two at once leave nothing wrong."""

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.exceptions import SnapshotError, StorageError
from airflow_kafka_groups.judge.staleness.observation_store import ObservationStore
from airflow_kafka_groups.spark.jobs.judge_staleness import parse_arguments, run_here
from airflow_kafka_groups.storage.file_storage import LocalStorage, Storage
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from tests.histories.judged import hour_rows, judge, verdicts, write_hour
from tests.histories.lake import CLUSTER, flip_a_bit, write_data, write_manifest, write_snapshot
from tests.histories.shorthand import seen, snapshot_id

HOURS = range(3)


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("judged")
    for number in HOURS:
        write_hour(base, number)
    assert judge(base)["snapshots_reduced"] == 3
    return base


@pytest.fixture
def judged(first_run: Path, tmp_path: Path) -> Path:
    """Return a base with three snapshots, reduced and judged."""
    return Path(shutil.copytree(first_run, tmp_path / "judged"))


def manifest_of(base: Path, number: float) -> Path:
    return base / CLUSTER / "summaries" / "observations" / f"{snapshot_id(number)}.json"


def file_of(base: Path, number: float) -> Path:
    (file,) = (base / CLUSTER / "tables" / "observations" / f"snapshot_id={snapshot_id(number)}").glob("*.parquet")
    return file


def change_manifest(base: Path, number: float, **changes: Any) -> None:
    path = manifest_of(base, number)
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def change_file(base: Path, number: float, **changes: Any) -> None:
    """Change what the manifest says of the only file."""
    (file,) = json.loads(manifest_of(base, number).read_text())["files"]
    change_manifest(base, number, files=[file | changes])


def test_one_more_snapshot_is_reduced_alone_and_judged_as_by_all_rows(judged: Path) -> None:
    write_snapshot(judged, 2.5, seen(2.5, group="new", members=1, state="Stable"), complete=False)
    write_hour(judged, 3)
    retention = ("--offsets-retention-minutes", "600")
    added = judge(judged, *retention)
    assert (added["snapshots_reduced"], added["snapshots_used"], added["groups"]) == (2, 4, 3)
    assert added["verdicts"]["stale"] == 1
    assert (added["oldest_observation"], added["newest_observation"]) == (
        "2026-01-01T00:00:00.000000Z",
        "2026-01-01T03:00:00.000000Z",
    )
    by_observations = verdicts(judged, 3)
    assert judge(judged, *retention)["snapshots_reduced"] == 0
    assert verdicts(judged, 3) == by_observations
    shutil.rmtree(judged / CLUSTER / "tables" / "observations")
    from_rows = judge(judged, *retention)
    assert from_rows["snapshots_reduced"] == 5
    assert verdicts(judged, 3) == by_observations
    changing = {"snapshots_reduced", "seconds", "files"}
    assert {name: added[name] for name in added.keys() - changing} == {
        name: from_rows[name] for name in from_rows.keys() - changing
    }


def newer_manifest(base: Path, number: int) -> None:
    path = base / CLUSTER / "manifests" / f"{snapshot_id(number)}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"failed_groups": 1}))


def other_bytes(base: Path, number: int) -> None:
    part = write_data(base, snapshot_id(number), hour_rows(number)[::-1])
    pq.write_table(pq.read_table(part), base / "rows", compression="none")
    shutil.move(base / "rows", part)
    write_manifest(base, snapshot_id(number), len(hour_rows(number)))


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)


def of_another_snapshot(base: Path, number: int) -> None:
    target = file_of(base, number)
    target.write_bytes(file_of(base, 0).read_bytes())
    change_file(base, number, bytes=target.stat().st_size)


DOUBTS: dict[str, Callable[[Path, int], object]] = {
    "the snapshot's manifest changed": newer_manifest,
    "the snapshot's rows changed": other_bytes,
    "no manifest": lambda base, number: manifest_of(base, number).unlink(),
    "a torn manifest": lambda base, number: manifest_of(base, number).write_text('{"snapshot_id":'),
    "no JSON object": lambda base, number: manifest_of(base, number).write_text("[]"),
    "another format": lambda base, number: change_manifest(base, number, format=2),
    "of another snapshot": lambda base, number: change_manifest(base, number, snapshot_id=snapshot_id(0)),
    "of another cluster": lambda base, number: change_manifest(base, number, cluster="d"),
    "no file": lambda base, number: file_of(base, number).unlink(),
    "no groups": lambda base, number: change_manifest(base, number, files=[]),
    "cut off": lambda base, number: cut_off(file_of(base, number)),
    "no time": lambda base, number: change_file(base, number, oldest="yesterday"),
    "a number in words": lambda base, number: change_file(base, number, groups="1"),
    "no digest": lambda base, number: change_file(base, number, sha256=None),
}

DAMAGED: dict[str, Callable[[Path, int], object]] = {
    "another number of groups": lambda base, number: change_file(base, number, groups=7),
    "a later beginning": lambda base, number: change_file(base, number, oldest=1_800_000_000_000_000),
    "another end": lambda base, number: change_file(base, number, newest=1_767_227_400_000_000),
    "an end before the beginning": lambda base, number: change_file(base, number, newest=5),
    "a damaged byte": lambda base, number: flip_a_byte(file_of(base, number)),
    "another snapshot's file": of_another_snapshot,
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_damaged_observations_fail_the_job_once_and_are_made_again_by_the_next(
    judged: Path, damage: Callable[[Path, int], object]
) -> None:
    before = verdicts(judged, 2)
    damage(judged, 1)
    with pytest.raises(StorageError, match=f"of snapshot {snapshot_id(1)} .* run the job again"):
        judge(judged)
    assert judge(judged)["snapshots_reduced"] == 1
    assert verdicts(judged, 2) == before


@pytest.mark.timeout(300)
def test_in_any_doubt_the_snapshot_is_reduced_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    doubted = dict(enumerate(DOUBTS, 1))
    hours = range(len(DOUBTS) + 2)
    for number in hours:
        write_hour(tmp_path, number)
    assert judge(tmp_path)["snapshots_reduced"] == len(hours)
    before = verdicts(tmp_path, hours[-1])
    assert {row["group_id"]: row["verdict"] for row in before} == {"moving": "moving", "new": "stale", "stale": "stale"}
    for number, doubt in doubted.items():
        DOUBTS[doubt](tmp_path, number)
    reduced: list[str] = []
    publish = ObservationStore.publish

    def recorded(store: ObservationStore, manifest: SnapshotManifest, *made: Any) -> None:
        reduced.append(manifest.snapshot_id)
        publish(store, manifest, *made)

    monkeypatch.setattr(ObservationStore, "publish", recorded)
    again = judge(tmp_path)
    assert [doubt for number, doubt in doubted.items() if snapshot_id(number) not in reduced] == []
    assert sorted(reduced) == [snapshot_id(number) for number in doubted], "each once, and no other"
    assert again["snapshots_reduced"] == len(DOUBTS)
    assert verdicts(tmp_path, hours[-1]) == before
    assert all(file_of(tmp_path, number).stat().st_size > 0 for number in hours)
    assert judge(tmp_path)["snapshots_reduced"] == 0


def test_rows_that_contradict_their_manifest_stop_the_job_though_they_were_reduced_before(judged: Path) -> None:
    write_data(judged, snapshot_id(1), seen(1, group="stale"))
    with pytest.raises(SnapshotError, match=f"{snapshot_id(1)} is incomplete.*it has other bytes"):
        judge(judged)
    assert not list((judged / CLUSTER / "tables" / "observations").glob("_*"))


def spoil_rows(base: Path) -> str:
    write_hour(base, 3)
    write_manifest(base, snapshot_id(3), 4)
    return "3 rows where its manifest says 4"


def spoil_bytes(base: Path) -> str:
    write_hour(base, 3)
    data = base / CLUSTER / "data" / snapshot_id(3) / "part-00000.parquet"
    content = data.read_bytes()
    data.write_bytes(content[:4] + b"\0" * 400 + content[404:])  # its footer still reads
    return "it has other bytes"


def flip_in_an_offset(base: Path) -> str:
    write_hour(base, 3)
    flip_a_bit(base / CLUSTER / "data" / snapshot_id(3) / "part-00000.parquet", "committed_offset")
    return "it has other bytes"


def empty(base: Path) -> str:
    write_data(base, snapshot_id(3), [])
    write_manifest(base, snapshot_id(3), 1)
    return "0 rows where its manifest says 1"


def of_another(base: Path, number: int = 3) -> str:
    write_snapshot(base, number, seen(number))
    write_data(base, snapshot_id(number), seen(2))
    return "it has other bytes"


@pytest.mark.parametrize("spoil", [spoil_rows, spoil_bytes, flip_in_an_offset, empty, of_another])
def test_a_damaged_snapshot_stops_the_job_and_leaves_nothing_that_counts(
    judged: Path, spoil: Callable[[Path], str]
) -> None:
    problem = spoil(judged)
    with pytest.raises(SnapshotError, match=problem):
        judge(judged)
    assert not list((judged / CLUSTER / "tables" / "verdicts").glob(f"*{snapshot_id(3)}*"))
    assert not manifest_of(judged, 3).exists()
    assert not list((judged / CLUSTER / "tables" / "observations").glob(f"*{snapshot_id(3)}*"))


def test_two_jobs_at_once_write_one_file_and_one_manifest(judged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_hour(judged, 3)
    create = Storage.create

    def beside(storage: Storage, *arguments: Any, **named: Any) -> None:
        create(storage, *arguments, **named)
        monkeypatch.setattr(Storage, "create", create)
        assert judge(judged)["snapshots_reduced"] == 1  # another job, from beginning to end

    monkeypatch.setattr(Storage, "create", beside)
    assert judge(judged)["verdicts"]["stale"] == 2
    written = manifest_of(judged, 3).read_text()
    assert [file["name"] for file in json.loads(written)["files"]] == [file_of(judged, 3).name]
    assert judge(judged)["snapshots_reduced"] == 0
    assert manifest_of(judged, 3).read_text() == written


def test_a_damaged_file_of_the_same_name_is_not_trusted(judged: Path) -> None:
    """A job was killed before the manifest, and the file that it left was damaged since."""
    file = file_of(judged, 1)
    healthy = file.read_bytes()
    manifest_of(judged, 1).unlink()
    flip_a_byte(file)
    before = verdicts(judged, 2)
    judge(judged)
    assert verdicts(judged, 2) == before
    assert file_of(judged, 1).read_bytes() == healthy


def test_a_snapshot_without_groups_has_a_manifest_and_no_file(tmp_path: Path) -> None:
    write_snapshot(tmp_path, 0, [], files=[])
    write_hour(tmp_path, 1)
    assert judge(tmp_path)["snapshots_reduced"] == 2
    assert json.loads(manifest_of(tmp_path, 0).read_text())["files"] == []
    again = judge(tmp_path)
    assert (again["snapshots_reduced"], again["snapshots_used"], again["verdicts"]["settling"]) == (0, 2, 2)


def test_what_another_job_moved_to_its_place_meanwhile_is_not_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other job reads it right then: without it, it would reduce the snapshot again, and take away ours."""
    write_hour(tmp_path, 0)
    create, remove, replace = Storage.create, Storage.remove, Storage.replace
    moved: list[str] = []

    def moved_by_another(storage: Storage, path: str, content: bytes, *, durable: bool) -> None:
        replace(storage, path, content)
        moved.append(path)
        create(storage, path, content, durable=durable)

    def kept(call: Any) -> Any:
        def called(storage: Storage, path: str, *more: Any) -> None:
            assert path not in moved
            call(storage, path, *more)

        return called

    monkeypatch.setattr(Storage, "create", moved_by_another)
    monkeypatch.setattr(Storage, "remove", kept(remove))
    monkeypatch.setattr(Storage, "replace", kept(replace))
    assert judge(tmp_path)["snapshots_reduced"] == 1
    assert len(moved) == 2, "the observations and their manifest"


class Remote(LocalStorage):
    """A storage whose answers take a while: each wait for one costs as much as many of them at once."""

    is_local = False


def test_many_snapshots_are_stored_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        write_hour(tmp_path, number)
    together, create = threading.Barrier(3, timeout=30), Storage.create

    def created(storage: Storage, path: str, content: bytes, *, durable: bool) -> None:
        if "/summaries/observations/" in path:
            together.wait()
        create(storage, path, content, durable=durable)

    monkeypatch.setattr(Storage, "create", created)
    asked = parse_arguments(["--base", str(tmp_path), "--cluster", CLUSTER, "--min-idle-seconds", "3600"])
    assert run_here(lambda _: Remote(), asked)["snapshots_reduced"] == 3
