"""Pruning of files: what a later decision needs stays, and nothing else of an old set."""

import asyncio
import json
import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.backlog import write_backlog
from airflow_kafka_groups.change.file_pruning import FileKind, FileSet, PruneReport, PruningLimits, prune
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.paths import TableName
from tests.fakes.groups import FakeGroup, Ticking
from tests.fakes.wanted import want
from tests.unit.operators import scene
from tests.unit.operators.scene import Site

pytestmark = pytest.mark.safety

_NOW = datetime.now(UTC)


def id_of(days: float) -> str:
    return f"{ago(days):%Y%m%dT%H%M%SZ}-00000001"


def ago(days: float) -> datetime:
    return _NOW - timedelta(days=days)


def write(storage: Path, where: str, content: dict[str, Any], cluster: str = scene.CLUSTER) -> Path:
    path = storage / cluster / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"format": 1, "cluster": cluster, **content}))
    return path


def snapshot(storage: Path, days: float) -> Path:
    return write(storage, f"manifests/{id_of(days)}.json", {"snapshot_id": id_of(days)})


def run(storage: Path, *, newest: int = 1, **days: float) -> PruneReport:
    """Prune by these limits in days, which are 60 by default."""
    limits = PruningLimits(days={kind: days.get(kind.value, 60.0) for kind in FileKind}, keep_newest=newest)
    return prune(Layout(storage, scene.CLUSTER), limits, now=datetime.now(UTC), dry_run=False)


def change(storage: Path, days: float) -> Path:
    """Write the record of a change of offsets."""
    run_id = id_of(days)
    return write(storage, f"changes/{run_id}-before.json", {"run_id": run_id, "what": "restore", "groups": []})


@pytest.mark.promise(5)
def test_a_restored_group_is_not_planned_again_once_its_record_is_removed(site: Site) -> None:
    site.admin.groups = {"a": FakeGroup(), "live": FakeGroup()}
    asyncio.run(take_snapshot(site.admin, site.layout, now=Ticking(ago(30))))
    site.judge(site.take_snapshot(), ["a"])  # idle for 30 days by its snapshots
    record, _ = change(site.storage, 5), change(site.storage, 0)
    want(Layout(site.storage, "other"), "a", at=ago(5), what="restore")
    assert site.plan(max_share=1)["counts"]["planned"] == 0, "its idle time counts from the restore"
    assert run(site.storage, change=3).removed["change"] == (record.name[:25],)
    assert site.plan(max_share=1)["counts"]["planned"] == 0


@pytest.mark.parametrize(("ended", "kept"), [(-20, True), (5, True), (80, False)])
@pytest.mark.parametrize("folder", ["plans", "prune_plans"])
@pytest.mark.promise(2)
def test_a_backup_is_kept_for_as_long_after_the_last_deletion_as_the_limit_says(
    tmp_path: Path, folder: str, ended: float, kept: bool
) -> None:
    """A plan may wait for months: a group that it deleted yesterday has no older backup than that."""
    backups = []
    for days, end in ((100, ended), (0, -1)):
        plan_id = id_of(days)
        write(tmp_path, f"{folder}/{plan_id}.json", {"plan_id": plan_id, "expires_at": ago(end).isoformat()})
        backups.append(write(tmp_path, f"backups/{plan_id}.json", {"plan_id": plan_id}))
    assert len(run(tmp_path).removed["cleanup"]) == (0 if kept else 1)
    assert backups[0].exists() is kept


def test_files_of_a_time_to_come_take_no_place_among_the_newest(tmp_path: Path) -> None:
    """A worker's clock was a year ahead for some hours: after a pause, all backups from before it were removed."""
    ids = map(id_of, (90, 80, -300, -301))
    backups = [write(tmp_path, f"backups/{id_}.json", {"plan_id": id_}) for id_ in ids]
    snapshot(tmp_path, 0)
    assert run(tmp_path, newest=2).removed["cleanup"] == ()
    assert all(path.exists() for path in backups)


# Nothing of an old set stays for good, and nothing half done takes the place of what is to stay.


@pytest.mark.parametrize("folder", ["summaries/observations", "summaries/verdicts"])
@pytest.mark.parametrize("alone", [False, True])
def test_the_checksums_that_hadoop_keeps_beside_spark_s_files_on_a_disk_go_with_them(
    tmp_path: Path, folder: str, alone: bool
) -> None:
    """Two stayed of each snapshot, for good: 17,000 files in a year, which each job and each pruning lists."""
    old, recent = id_of(70), id_of(0)
    snapshot(tmp_path, 0)
    left = [write(tmp_path, f"{folder}/.{id_}.json.crc", {}) for id_ in (old, recent)]
    mine = write(tmp_path, f"{folder}/.notes.json.crc", {})
    if not alone:  # what earlier prunings have left is alone
        snapshot(tmp_path, 70)
        write(tmp_path, f"{folder}/{old}.json", {"snapshot_id": old})
    assert run(tmp_path).removed["snapshot"] == (old,)
    assert [path.exists() for path in (*left, mine)] == [False, True, True]


@pytest.mark.safety
def test_snapshots_that_came_to_nothing_are_not_the_newest_ones(tmp_path: Path) -> None:
    """Each hour's was killed for lack of memory, for weeks: the last snapshots were removed, and all last members."""
    whole = [snapshot(tmp_path, days) for days in (80, 79, 78)]
    for hour in range(3):
        write(tmp_path, f"data/{id_of(hour / 24)}/part-00000.parquet", {})
    assert len(run(tmp_path, newest=2).removed["snapshot"]) == 1
    assert [path.exists() for path in whole] == [False, True, True]


def test_the_checksums_of_a_storage_that_hadoop_has_copied_keep_no_clean_up(tmp_path: Path) -> None:
    """A move by ``hadoop distcp`` to a disk or NFS writes one for each file."""
    old = id_of(70)
    write(tmp_path, f"plans/{old}.json", {"plan_id": old, "expires_at": "2020-01-02T00:00:00+00:00"})
    write(tmp_path, f"backups/{id_of(0)}.json", {"plan_id": id_of(0)})
    write(tmp_path, f"plans/.{old}.json.crc", {})
    found = run(tmp_path)
    assert (found.removed["cleanup"], found.foreign) == ((old,), {})
    assert not [path for path in tmp_path.rglob(f"*{old}*")]


def test_what_somebody_put_beside_the_rows_of_no_snapshot_keeps_no_later_snapshot(tmp_path: Path) -> None:
    """A file in what a killed snapshot left of its rows kept all later ones for good; of one that counts, it has to."""
    mine = write(tmp_path, f"data/{id_of(90)}/notes.txt", {})
    later = [snapshot(tmp_path, days) for days in (80, 70)]
    snapshot(tmp_path, 0)
    found = run(tmp_path)
    assert found.removed["snapshot"] == tuple(path.stem for path in later)
    assert list(found.foreign) == [f"snapshot {mine.parent.name}"]
    assert [path.exists() for path in (mine, *later)] == [True, False, False]
    counts = snapshot(tmp_path, 65)
    write(tmp_path, f"data/{counts.stem}/notes.txt", {})
    snapshot(tmp_path, 63)
    assert run(tmp_path).removed["snapshot"] == ()
    assert counts.exists()


@pytest.mark.parametrize("alone", [False, True])
def test_the_tables_of_lag_go_with_their_snapshot(tmp_path: Path, *, alone: bool) -> None:
    """A report each hour left its files for good: thousands in a year, beside what observations and verdicts lost."""
    names = [name for name in TableName if name.startswith("lag_")]
    recent = snapshot(tmp_path, 0).stem
    old = id_of(70) if alone else snapshot(tmp_path, 70).stem  # what earlier prunings have left is alone
    kept, gone = (
        [
            write(tmp_path, f"summaries/lag_partitions/{id_}.json", {"job": "lag_report", "snapshot_id": id_}),
            *(write(tmp_path, f"tables/{name}/snapshot_id={id_}/part-0.parquet", {}) for name in names),
        ]
        for id_ in (recent, old)
    )
    archive = write(tmp_path, f"tables/archives/archive_id={old}-0a1b2c3d/topic=a/part-0.parquet", {})
    assert run(tmp_path).removed["snapshot"] == (old,)
    assert len(gone) == 2
    assert all(path.exists() for path in (*kept, archive))
    assert not [path for path in tmp_path.rglob(f"*{old}*") if "archives" not in path.parts]


def test_the_offsets_that_spark_was_given_go_and_what_it_made_of_the_records_stays(site: Site) -> None:
    """Each backlog left a group's offsets and the job's result for good; the records are the user's."""
    snapshot_id = site.judged_once(["a"])
    found: list[tuple[Path, ...]] = []
    for days in (70, 0):
        made = write_backlog(site.layout, snapshot_id, "a", datetime.now(UTC) - timedelta(days=days))
        result = {"job": "process_group_backlog", "backlog_id": made.backlog_id, "outcome": "failed"}
        write(site.storage, f"backlogs/{made.backlog_id}-result.json", result)
        mine = write(
            site.storage, f"backlogs/{made.backlog_id}/backlog_slice={made.backlog_id}-000001-1/part-0.parquet", {}
        )
        record = write(site.storage, f"backlogs/_backlog_records/0a1b2c3d/00000{len(found) + 1}/000001.json", {})
        found.append((Path(str(made.path)), Path(str(made.result_path)), mine, record))
    left = write(site.storage, f"backlogs/.{found[0][0].name}.0a1b2c3d.tmp", {})
    removed = run(site.storage).removed["backlog"]
    assert removed == (found[0][0].stem,)
    assert [[path.exists() for path in paths] for paths in found] == [[False, False, True, True], [True] * 4]
    assert not left.exists()


def test_no_folder_is_listed_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By count: manifests were listed three times, backups and plans four. An object store takes seconds for each."""
    for days in (70, 0):
        id_ = snapshot(tmp_path, days).stem
        write(tmp_path, f"backups/{id_}.json", {"plan_id": id_})
    listed, real = Counter[str](), os.scandir

    def noted(folder: Any) -> Any:
        if Path(folder).is_dir():  # one that is not there is looked for twice, as NFS may not know it yet
            listed[Path(folder).name] += 1
        return real(folder)

    monkeypatch.setattr(os, "scandir", noted)
    assert [len(ids) for ids in run(tmp_path).removed.values()] == [1, 1, 0, 0, 0]
    assert {name: times for name, times in listed.items() if times > 1} == {}


def test_a_pruning_that_is_killed_again_and_again_comes_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All sets were looked into before the first was removed: with those of years, each run was killed before that."""
    paths = [snapshot(tmp_path, days) for days in (90, 80, 70, 0)]
    looked, look_into = list[str](), FileSet.look_into

    def look_until_the_time_is_up(file_set: FileSet) -> None:
        looked.append(file_set.id)
        if len(looked) == 3:
            raise KeyboardInterrupt
        look_into(file_set)

    monkeypatch.setattr(FileSet, "look_into", look_until_the_time_is_up)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path)
    assert [path.exists() for path in paths] == [False, False, True, True]
    assert run(tmp_path).removed["snapshot"] == (paths[2].stem,)


# Pruning of files works wherever the storage folder is, and whatever somebody has put into it.


OLD = "20200101T000000Z-00000001"


@pytest.mark.parametrize("above", ["kafka", "backups/kafka", "plans/kafka"])
def test_a_plan_or_a_backup_alone_goes_whatever_the_folders_above_are_called(tmp_path: Path, above: str) -> None:
    storage = tmp_path / above
    times = {"expires_at": "2020-01-02T00:00:00+00:00"}
    for plan_id in (OLD, id_of(0)):
        write(storage, f"plans/{plan_id}.parquet", {})
        write(storage, f"plans/{plan_id}.json", {"plan_id": plan_id, **times})
    backup = OLD.replace("0101T", "0102T")
    write(storage, f"backups/{backup}-0a1b2c3d.parquet", {})
    write(storage, f"backups/{backup}.json", {"plan_id": backup})
    found = run(storage)
    assert found.foreign == {}
    assert len(found.removed["cleanup"]) == 2


def keeps_only(odd: Path, storage: Path) -> None:
    """Check that a pruning keeps an odd entry, and removes another old set."""
    listing = write(storage, f"listings/{OLD}.json", {})
    for kind in ("listings", "manifests", "plans"):
        newest = id_of(0)
        ids = {"snapshot_id": newest, "plan_id": newest, "expires_at": "2020-01-02T00:00:00+00:00"}
        write(storage, f"{kind}/{newest}.json", ids)
    run(storage)
    assert odd.exists()
    assert not listing.exists()


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
    recent = left.with_name(left.name.replace(OLD, id_of(0)))
    recent.write_text("to")
    foreign = left.with_name(f".{OLD}.notes{LEFT}")
    foreign.write_text("mine")
    snapshot(tmp_path, 0)
    assert run(tmp_path).foreign == {}
    assert not left.exists()
    assert recent.exists(), "its process may be writing still"
    assert foreign.exists()


@pytest.mark.safety
def test_what_a_killed_process_has_left_is_not_the_newest_of_a_kind(tmp_path: Path) -> None:
    write(tmp_path, f"backups/{OLD}.json", {"plan_id": OLD})
    left = write(tmp_path, f"plans/.{id_of(0)}.json{LEFT}", {})
    snapshot(tmp_path, 0)
    assert run(tmp_path).removed["cleanup"] == ()
    assert left.exists()


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_two_prunings_at_once_both_come_to_their_end(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the other one has removed since this one looked is no error of the storage."""
    name = f"listings/{OLD}.json" if kind == "file" else f"data/{OLD}/part-00000.parquet"
    gone = write(tmp_path, name, {})
    newest = id_of(0)
    for where in ("manifests", "listings"):
        write(tmp_path, f"{where}/{newest}.json", {"snapshot_id": newest})
    looked: list[str] = []
    look_into = FileSet.look_into

    def look_while_another_removes(file_set: FileSet) -> None:
        look_into(file_set)
        looked.append(file_set.id)
        gone.unlink()
        if kind == "folder":
            gone.parent.rmdir()

    monkeypatch.setattr(FileSet, "look_into", look_while_another_removes)
    run(tmp_path)
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
    for snapshot_id in (OLD, later, id_of(0)):
        write(tmp_path, f"manifests/{snapshot_id}.json", {"snapshot_id": snapshot_id})
    found = run(tmp_path)
    assert (found.foreign, len(found.removed["snapshot"])) == ({}, 2)
    assert not torn.exists()
    assert not (tmp_path / scene.CLUSTER / folder).exists()
