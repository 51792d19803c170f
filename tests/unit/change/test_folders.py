"""Folders: what Hadoop and consoles keep for one, one that was renamed, and those of many clusters."""

import os
from collections.abc import Callable
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from airflow_kafka_groups.change.backup.file import load_backup
from airflow_kafka_groups.exceptions import MaintenanceError, StorageError
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan, load_plan
from airflow_kafka_groups.observe.snapshot.cluster_folders import (
    folders_with_snapshots,
    later_snapshots,
    other_folders,
)
from airflow_kafka_groups.observe.snapshot.reader import latest_manifest
from airflow_kafka_groups.storage.file_storage import FILES, READERS
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, FakeGroup
from tests.fakes.refusing_path import path_in
from tests.unit.change.scene import backed_up, layout_in, snapshot

FOLDER = "bucket/prod/data/20200101T000000Z-00000001"


class Objects:
    """Objects by name; Azure's with whether they stand for a folder."""

    def __init__(self, protocol: str, names: dict[str, bool]) -> None:
        self.protocol, self.names = (protocol,), names

    def invalidate_cache(self, key: str) -> None:
        """Forget nothing."""

    def info(self, key: str) -> dict[str, Any]:
        if key in self.names:
            return {"name": key, "type": "directory" if self.names[key] else "file"}
        if any(name.startswith(f"{key}/") for name in self.names):
            return {"name": key, "type": "directory"}
        raise FileNotFoundError(key)

    def rm_file(self, key: str) -> None:
        if key not in self.names:
            raise FileNotFoundError(key)
        if self.names[key] and any(name.startswith(f"{key}/") for name in self.names):
            raise OSError("DirectoryIsNotEmpty")  # as a hierarchical namespace answers
        del self.names[key]


def remove(fs: Objects) -> dict[str, bool]:
    FILES.remove_folder(path_in(fs, FOLDER))
    return fs.names


@pytest.mark.parametrize(("protocol", "marker"), [("gs", f"{FOLDER}/"), ("abfss", FOLDER), ("s3", f"{FOLDER}/")])
def test_a_folder_s_empty_object_goes_with_its_files(protocol: str, marker: str) -> None:
    """Otherwise its set was found, and reported as removed, each day."""
    assert remove(Objects(protocol, {marker: True})) == {}
    assert remove(Objects(protocol, {})) == {}


@pytest.mark.safety
def test_what_is_a_file_on_azure_stays() -> None:
    assert remove(Objects("abfss", {FOLDER: False})) == {FOLDER: False}


@pytest.mark.safety
def test_a_folder_of_azure_into_which_somebody_has_put_a_file_stays() -> None:
    store = Objects("abfss", {FOLDER: True, f"{FOLDER}/notes.txt": False})
    with pytest.raises(StorageError, match="DirectoryIsNotEmpty"):
        remove(store)
    assert len(store.names) == 2


@pytest.mark.parametrize(
    "read",
    [
        lambda layout, plan: load_backup(layout, plan.plan_id),
        lambda layout, plan: load_plan(layout, plan.plan_id),
        lambda layout, _: latest_manifest(layout),
    ],
    ids=["restore", "deletion", "plan"],
)
async def test_whoever_renames_a_cluster_s_folder_is_told_its_former_name(
    tmp_path: Path, read: Callable[[Layout, DeletionPlan], object]
) -> None:
    """A restore said whose the backup is, and nothing of what to do: by the new name, no deletion could be undone."""
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(FakeAdmin({"a": FakeGroup()}), layout)
    Path(str(layout.root)).rename(tmp_path / "renamed")  # noqa: ASYNC240  # it is fast
    with pytest.raises(MaintenanceError, match="Move it back to the folder 'prod', and pass cluster='prod'"):
        read(Layout(tmp_path, "renamed"), plan)


@pytest.mark.parametrize(
    "look",
    [
        lambda layout, _: other_folders(layout),
        lambda layout, _: folders_with_snapshots(layout, CLUSTER_ID),
        lambda layout, snapshot_id: later_snapshots(layout, snapshot_id, CLUSTER_ID),
    ],
    ids=["what is in them", "their snapshots", "later snapshots"],
)
async def test_several_folders_are_listed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: Callable[[Layout, str], Any]
) -> None:
    """A deletion lists five folders of each other cluster under its lease: they meet here, or the wait is broken."""
    admin, layout = FakeAdmin(), layout_in(tmp_path)
    judged = (await snapshot(admin, layout)).manifest.snapshot_id
    admin.cluster = "another"
    for number in range(READERS):
        await snapshot(admin, Layout(tmp_path, f"other{number}"))
    places = ("root", "manifests", "summaries", "verdicts")
    meetings, real = {name: Barrier(READERS) for name in places}, os.scandir

    def met(folder: Any) -> Any:
        place = Path(folder).relative_to(tmp_path).parts
        if place and place[0].startswith("other"):
            meetings["root" if len(place) == 1 else place[1]].wait(timeout=5)
        return real(folder)

    monkeypatch.setattr(os, "scandir", met)
    list(look(layout, judged))
