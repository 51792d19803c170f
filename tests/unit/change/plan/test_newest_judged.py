"""Which snapshot is planned from where none is named: one of the cluster, whatever was taken of single groups since."""

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import MaintenanceError, SnapshotError, StorageError
from airflow_kafka_groups.hooks.retries import is_final
from airflow_kafka_groups.ledger.verdicts import load_verdicts, newest_judged
from airflow_kafka_groups.observe.snapshot import reader
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.json_files import write_json
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.busy_store import busy_store
from tests.fakes.groups import NOW, FakeGroup, Ticking
from tests.fakes.network_folder import NetworkFolder
from tests.unit.change.scene import layout_in

ALL, NAMED = None, ["a"]


async def take(layout: Layout, *scopes: list[str] | None) -> list[str]:
    """Take a snapshot a day, of all groups or of named ones, and return their ids."""
    admin = FakeAdmin({"a": FakeGroup(), "b": FakeGroup()})
    clocks = [Ticking(NOW + timedelta(days=day)) for day in range(len(scopes))]
    pairs = zip(scopes, clocks, strict=True)
    return [(await take_snapshot(admin, layout, group_ids=named, now=now)).snapshot_id for named, now in pairs]


def judge(layout: Layout, snapshot_ids: Iterable[str]) -> None:
    for snapshot_id in snapshot_ids:
        summary = layout.verdict_summary(snapshot_id)
        write_json(summary.parent, summary.name, {"groups": 0, "files": ["part-00000.parquet"]})


async def two_judged(layout: Layout) -> tuple[str, str]:
    first, second = await take(layout, ALL, ALL)
    judge(layout, [first, second])
    return first, second


async def test_a_judged_snapshot_of_named_groups_counts_only_where_no_other_one_is_judged(tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    first, named, _ = await take(layout, ALL, NAMED, ALL)
    judge(layout, [named])
    assert newest_judged(layout) == named
    judge(layout, [first])
    assert newest_judged(layout) == first


async def test_however_many_snapshots_of_named_groups_were_taken_since(tmp_path: Path) -> None:
    """offsets_to_spark takes one a run: the job looks through all of them, too."""
    layout = layout_in(tmp_path)
    first, *_ = await take(layout, ALL, NAMED, NAMED, NAMED)
    assert reader.latest_manifest(layout, to_judge=True).snapshot_id == first


async def test_a_store_that_does_not_answer_is_no_reason_to_plan_from_an_older_snapshot(tmp_path: Path) -> None:
    _, second = await two_judged(layout_in(tmp_path))
    store, folder = busy_store(tmp_path)
    layout = layout_in(folder)
    assert newest_judged(layout) == second
    store.busy = f"summaries/verdicts/{second}"
    with pytest.raises(StorageError, match="503"):
        newest_judged(layout)


async def test_a_manifest_that_a_store_does_not_give_is_not_called_missing(tmp_path: Path) -> None:
    (snapshot_id,) = await take(layout_in(tmp_path), ALL)
    store, folder = busy_store(tmp_path)
    store.busy = "manifests"
    with pytest.raises(MaintenanceError, match="503"):
        reader.load_manifest(layout_in(folder), snapshot_id)


async def test_verdicts_that_a_store_does_not_give_are_not_called_missing(tmp_path: Path) -> None:
    (snapshot_id,) = await take(layout_in(tmp_path), ALL)
    judge(layout_in(tmp_path), [snapshot_id])
    store, folder = busy_store(tmp_path)
    store.busy = "tables/verdicts"
    with pytest.raises(StorageError, match="503"):
        load_verdicts(layout_in(folder), snapshot_id)


async def test_a_summary_that_another_machine_has_just_written_on_nfs_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looked for it a moment ago, such as a report, made NFS remember that it is absent."""
    layout = layout_in(tmp_path)
    _, second = await two_judged(layout)
    summary = Path(str(layout.verdict_summary(second)))
    mount = NetworkFolder(monkeypatch)
    for hidden in (summary, Path(str(layout.manifest(second)))):
        mount.hidden = {hidden}
        assert newest_judged(layout) == second


async def test_the_404_of_a_proxy_is_no_reason_to_plan_from_an_older_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, second = await two_judged(layout_in(tmp_path))
    store, folder = busy_store(tmp_path)
    layout = layout_in(folder)
    store.busy = f"summaries/verdicts/{second}"

    def answer(path: object) -> None:
        if store.busy in str(path):
            answered = OSError("An error occurred (404)")
            answered.response = {"Error": {"Code": "404"}}  # type: ignore[attr-defined]
            raise FileNotFoundError(str(path)) from answered

    monkeypatch.setattr(store, "_answer", answer)
    with pytest.raises(StorageError, match="404 does not say what is missing"):
        newest_judged(layout)
    store.busy = f"manifests/{second}"
    with pytest.raises(StorageError, match="404 does not say what is missing"):
        reader.load_manifest(layout, second)


async def test_rows_that_a_store_does_not_give_once_are_tried_again(tmp_path: Path) -> None:
    """They are most of what is read: a failure that passes is met there first, and is no file that is not fit."""
    (snapshot_id,) = await take(layout_in(tmp_path), ALL)
    judge(layout_in(tmp_path), [snapshot_id])
    FILES.replace(layout_in(tmp_path).verdicts(snapshot_id) / "part-00000.parquet", b"rows")
    store, folder = busy_store(tmp_path)
    for read in (lambda *of: list(reader.SnapshotReader(*of).summaries()), load_verdicts):
        store.busy = ".parquet"
        with pytest.raises(StorageError, match="503") as caught:
            read(layout_in(folder), snapshot_id)
        assert not is_final(caught.value), "Airflow retries it"
    store.busy = "nothing"
    with pytest.raises(SnapshotError, match="cannot be read"):
        load_verdicts(layout_in(folder), snapshot_id)
