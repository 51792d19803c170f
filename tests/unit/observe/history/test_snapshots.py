"""Which snapshots on disk are judged by, and what is wrong with the others."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.judge.staleness.observation_store import ObservationStore
from airflow_kafka_groups.judge.staleness.one_process import OneProcess
from airflow_kafka_groups.observe.history.snapshots import (
    History,
    Manifests,
    find_history,
    newest_complete,
    newest_to_judge,
    parse_manifest,
)
from airflow_kafka_groups.storage.file_storage import LocalStorage
from tests.histories.lake import CLUSTER, write_data, write_manifest, write_snapshot
from tests.histories.shorthand import ARROW_SCHEMA, seen, snapshot_id


def find(base: Path, **options: Any) -> History:
    return find_history(LocalStorage(), base.as_uri(), CLUSTER, **options)


def read(base: Path) -> None:
    history = find(base)
    store = ObservationStore(LocalStorage(), history)
    OneProcess().reduce(store)
    assert sorted(store.stored) == [manifest.snapshot_id for manifest in history.read]


def ids(*numbers: float) -> tuple[str, ...]:
    return tuple(snapshot_id(number) for number in numbers)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hours 0, 1, 3 and 30 are good; 2 is not complete, 4 of another cluster, 5 without manifest; stray files too."""
    base = tmp_path_factory.mktemp("lake")
    for number in (0, 1, 3, 30):
        write_snapshot(base, number, seen(number))
    write_snapshot(base, 2, seen(2), complete=False, missing_brokers={"2": "timed out"})
    write_snapshot(base, 4, seen(4), kafka_cluster_id="kafka-2")
    write_data(base, snapshot_id(5), seen(5))
    (base / CLUSTER / "data" / snapshot_id(1) / "part-00007.parquet").write_bytes(b"of an attempt that failed")
    (base / CLUSTER / "manifests" / "notes.json").write_text("{}")
    (base / CLUSTER / "manifests" / "README").write_text("hello")
    return base


def test_complete_snapshots_of_the_same_cluster_are_used_oldest_first(lake: Path) -> None:
    history = find(lake)
    assert history.snapshot_ids == ids(0, 1, 3, 30)
    read(lake)


def test_incomplete_snapshots_between_them_are_read_too(lake: Path) -> None:
    assert [manifest.snapshot_id for manifest in find(lake).read] == list(ids(0, 1, 2, 3, 30))
    assert find(lake, max_snapshots=2).incomplete == ()
    assert find(lake, snapshot_id=snapshot_id(1)).incomplete == ()


def test_what_is_not_used_is_told_with_the_reason(lake: Path) -> None:
    assert find(lake).skipped == (
        ("notes", "its name is not a snapshot id"),
        (snapshot_id(5), "data without a manifest: incomplete, ignored"),
        (snapshot_id(4), "is of another Kafka cluster (kafka-2, judged: kafka-1)"),
        (snapshot_id(2), "is not complete (missing from the listing: 2: timed out): only signs of life in it count"),
    )


def test_a_named_snapshot_is_judged_by_the_ones_before_it(lake: Path) -> None:
    assert find(lake, snapshot_id=snapshot_id(3)).snapshot_ids == ids(0, 1, 3)


def test_the_newest_complete_snapshots_are_taken_up_to_the_number_asked_for(lake: Path) -> None:
    assert find(lake, max_snapshots=3).snapshot_ids == ids(1, 3, 30)
    assert find(lake, max_snapshots=1).snapshot_ids == ids(30)


def test_snapshots_are_taken_up_to_the_age_asked_for(lake: Path) -> None:
    assert find(lake, max_days=29 / 24).snapshot_ids == ids(1, 3, 30)


def test_a_snapshot_that_is_not_complete_is_never_judged(lake: Path, tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match=r"is not complete .*2: timed out.*--snapshot-id"):
        find(lake, snapshot_id=snapshot_id(2))
    write_snapshot(tmp_path, 0, seen(0))
    write_snapshot(tmp_path, 1, seen(1), complete=False)
    with pytest.raises(SnapshotError, match=f"{snapshot_id(1)} is not complete"):
        find(tmp_path)


def test_a_snapshot_that_is_not_there_is_an_error_that_names_the_newest(lake: Path) -> None:
    with pytest.raises(
        SnapshotError, match=rf"{snapshot_id(5)} has no manifest.*newest one there is {snapshot_id(30)}"
    ):
        find(lake, snapshot_id=snapshot_id(5))


def test_files_are_listed_with_their_folder_and_their_size(tmp_path: Path) -> None:
    for folder, name, size in (("", "beside", 1), ("a", "x", 2), ("a", "y", 0), ("b é", "x", 4)):
        (tmp_path / "data" / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / folder / name).write_bytes(b"." * size)
    (tmp_path / "data" / "empty").mkdir()
    storage = LocalStorage()
    assert storage.sizes_below(f"{tmp_path.as_uri()}/none") == {}
    found = storage.sizes_below(f"{tmp_path.as_uri()}/data")
    assert found == {("data", "beside"): 1, ("a", "x"): 2, ("a", "y"): 0, ("b é", "x"): 4}


def test_an_empty_or_missing_folder_says_to_take_a_snapshot_first(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match=r"no snapshot of cluster c .*snapshot_group_offsets\) first"):
        find(tmp_path)
    (tmp_path / CLUSTER / "manifests").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "_journal").mkdir()
    with pytest.raises(SnapshotError, match=r"path \(a job's --base\) and the cluster\. Clusters there: c, other"):
        find(tmp_path)


def test_a_lost_data_file_stops_the_job(tmp_path: Path) -> None:
    write_snapshot(tmp_path, 0, seen(0))
    write_snapshot(tmp_path, 1, seen(1))
    (tmp_path / CLUSTER / "data" / snapshot_id(0) / "part-00000.parquet").unlink()
    with pytest.raises(SnapshotError, match=rf"{snapshot_id(0)} is incomplete.*missing: part-00000.*delete manifests/"):
        find(tmp_path)


def test_other_rows_than_the_manifest_says_stop_the_job(tmp_path: Path) -> None:
    write_snapshot(tmp_path, 0, seen(0))
    write_snapshot(tmp_path, 1, seen(1))
    write_manifest(tmp_path, snapshot_id(0), 2)
    with pytest.raises(SnapshotError, match=rf"{snapshot_id(0)} is incomplete.*1 rows where its manifest says 2"):
        read(tmp_path)


def test_a_snapshot_without_a_row_must_say_so(tmp_path: Path) -> None:
    write_data(tmp_path, snapshot_id(0), [])
    write_manifest(tmp_path, snapshot_id(0), 1)
    with pytest.raises(SnapshotError, match="0 rows where its manifest says 1"):
        read(tmp_path)
    write_manifest(tmp_path, snapshot_id(0), 0)
    read(tmp_path)
    write_manifest(tmp_path, snapshot_id(0), 0, files=[])
    read(tmp_path)


def test_rows_of_another_snapshot_stop_the_job(tmp_path: Path) -> None:
    for number in (0, 1):
        write_snapshot(tmp_path, number, seen(number))
    first, second = (tmp_path / CLUSTER / "data" / name / "part-00000.parquet" for name in ids(0, 1))
    second.write_bytes(first.read_bytes())
    with pytest.raises(SnapshotError, match=rf"{snapshot_id(1)} is incomplete.*part-00000.parquet: it has other bytes"):
        read(tmp_path)


def write_broken(base: Path, broken: str) -> None:
    """Write a snapshot with a column that is not as the contract says."""
    schema, at = ARROW_SCHEMA, ARROW_SCHEMA.get_field_index("error")
    schema = schema.remove(at) if broken == "missing" else schema.set(at, pa.field("error", pa.int32()))
    write_data(base, snapshot_id(0), seen(0), schema=schema)
    write_manifest(base, snapshot_id(0), 1)


BROKEN = {"missing": "error is missing", "of another type": "error is int"}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_column_that_is_not_as_the_contract_says_stops_the_job(tmp_path: Path, broken: str) -> None:
    write_broken(tmp_path, broken)
    with pytest.raises(SnapshotError, match=BROKEN[broken]):
        read(tmp_path)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"format": 2}, "has format 2, this version reads 1"),
        ({"cluster": "d"}, "belongs to snapshot .* of cluster 'd'"),
        ({"snapshot_id": snapshot_id(9)}, f"belongs to snapshot '{snapshot_id(9)}'"),
        ({"rows": 5}, "is damaged .*its files have 1 rows by their own count, 5 in all"),
    ],
)
def test_a_manifest_that_is_not_as_the_contract_says_is_refused(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    text = write_manifest(tmp_path, snapshot_id(0), 1, **changes).read_text()
    with pytest.raises(SnapshotError, match=problem):
        parse_manifest(text, snapshot_id=snapshot_id(0), cluster=CLUSTER)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null"])
def test_a_manifest_that_is_cut_off_is_half_written(text: str) -> None:
    with pytest.raises(SnapshotError, match=f"{snapshot_id(0)} is incomplete"):
        parse_manifest(text, snapshot_id=snapshot_id(0), cluster=CLUSTER)


def test_a_report_on_one_snapshot_reads_a_few_manifests(tmp_path: Path) -> None:
    """By count: each lag report and each archive read a hundred, which are as many requests of an object store."""
    texts, read = {name: write_manifest(tmp_path, name, 0).read_text() for name in ids(*range(50))}, list[str]()

    class Counting:
        def read_many(self, paths: list[str]) -> list[str]:
            read.extend(paths)
            return [texts[Path(path).stem] for path in paths]

    storage: Any = Counting()
    manifests = Manifests(storage, "folder", CLUSTER)
    assert newest_to_judge(manifests, sorted(texts)) == max(texts)
    used, _, _ = newest_complete(manifests, sorted(texts), 1)
    assert [each.snapshot_id for each in used] == [max(texts)]
    assert len(read) <= 8
    newest_complete(manifests, sorted(texts), 50)
    assert len(read) == len(set(read)) == 50, "each once"


def test_an_empty_manifest_on_disk_stops_the_job(tmp_path: Path) -> None:
    write_snapshot(tmp_path, 0, seen(0))
    write_manifest(tmp_path, snapshot_id(1), 1).write_text("")
    with pytest.raises(SnapshotError, match=f"{snapshot_id(1)} is incomplete"):
        find(tmp_path)
