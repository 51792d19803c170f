"""Nothing of an old set stays for good, and nothing half done takes the place of what is to stay."""

import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.backlog import write_backlog
from airflow_kafka_groups.change.file_pruning import FileKind, FileSet, PruneReport, PruningLimits, prune
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.paths import TableName
from tests.fakes.admin import FakeAdmin
from tests.unit.operators import scene
from tests.unit.operators.pruning.test_what_pruning_keeps import id_of, write


def snapshot(storage: Path, days: float) -> Path:
    return write(storage, f"manifests/{id_of(days)}.json", {"snapshot_id": id_of(days)})


def run(storage: Path, newest: int = 1) -> PruneReport:
    limits = PruningLimits(days=dict.fromkeys(FileKind, 60.0), keep_newest=newest)
    return prune(Layout(storage, scene.CLUSTER), limits, now=datetime.now(UTC), dry_run=False)


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


def test_the_offsets_that_spark_was_given_go_and_what_it_made_of_the_records_stays(
    admin: FakeAdmin, tmp_path: Path
) -> None:
    """Each backlog left a group's offsets and the job's result for good; the records are the user's."""
    snapshot_id = scene.judged_once(admin, tmp_path, ["a"])
    found: list[tuple[Path, ...]] = []
    for days in (70, 0):
        made = write_backlog(
            Layout(tmp_path, scene.CLUSTER), snapshot_id, "a", datetime.now(UTC) - timedelta(days=days)
        )
        result = {"job": "process_group_backlog", "backlog_id": made.backlog_id, "outcome": "failed"}
        write(tmp_path, f"backlogs/{made.backlog_id}-result.json", result)
        mine = write(
            tmp_path, f"backlogs/{made.backlog_id}/backlog_slice={made.backlog_id}-000001-1/part-0.parquet", {}
        )
        record = write(tmp_path, f"backlogs/_backlog_records/0a1b2c3d/00000{len(found) + 1}/000001.json", {})
        found.append((Path(str(made.path)), Path(str(made.result_path)), mine, record))
    left = write(tmp_path, f"backlogs/.{found[0][0].name}.0a1b2c3d.tmp", {})
    removed = run(tmp_path).removed["backlog"]
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

    def look_until_the_time_is_up(file_set: FileSet, cluster: str) -> None:
        looked.append(file_set.id)
        if len(looked) == 3:
            raise KeyboardInterrupt
        look_into(file_set, cluster)

    monkeypatch.setattr(FileSet, "look_into", look_until_the_time_is_up)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path)
    assert [path.exists() for path in paths] == [False, False, True, True]
    assert run(tmp_path).removed["snapshot"] == (paths[2].stem,)


@pytest.mark.parametrize("named", [{}, [], ["x"], 1])
def test_what_names_its_cluster_by_no_text_ends_no_pruning(tmp_path: Path, named: Any) -> None:
    """A manifest that somebody edited: each pruning of the folder failed, without a word of the file."""
    old = id_of(80)
    write(tmp_path, f"manifests/{old}.json", {"snapshot_id": old, "kafka_cluster_id": named})
    later = snapshot(tmp_path, 70)
    snapshot(tmp_path, 0)
    run(tmp_path)
    assert not later.exists()
