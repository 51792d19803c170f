"""The first snapshots by a connection that has another name by now, in a folder of its own."""

from datetime import timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.observe.snapshot import cluster_folders
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.storage.file_storage import FILES, Storage
from airflow_kafka_groups.storage.layout import Layout, StoragePath
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, NOW, FakeGroup, Ticking
from tests.fakes.refusing_path import refuse_listing
from tests.unit.change.scene import layout_in, snapshot

WEEK = timedelta(days=7)


@pytest.mark.safety
async def test_a_clock_that_is_behind_those_of_the_former_name_takes_no_snapshot(tmp_path: Path) -> None:
    """By the next one, of a clock that is right, each group that was empty for an hour was idle for a week."""
    admin, layout = FakeAdmin({"a": FakeGroup()}), layout_in(tmp_path)
    await snapshot(admin, layout)
    renamed, early = Layout(tmp_path, "renamed"), Ticking(NOW - WEEK)
    with pytest.raises(SnapshotError, match="was taken later than now"):
        await take_snapshot(admin, renamed, now=early)
    assert FILES.names(renamed.root) == []
    admin.cluster = "another"
    await take_snapshot(admin, renamed, now=early)


async def test_the_snapshots_of_others_are_not_looked_for_each_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By count: a storage may have the folders of hundreds of clusters."""
    admin, layout = FakeAdmin({"a": FakeGroup()}), layout_in(tmp_path)
    listed: list[StoragePath] = []

    def noted(folder: StoragePath) -> list[str]:
        listed.append(folder)
        return Storage().names(folder)

    monkeypatch.setattr(FILES, "names", noted)
    for hour in range(0, 24, 6):
        await take_snapshot(admin, layout, now=Ticking(NOW + timedelta(hours=hour)))
    assert [folder for folder in listed if "_journal" not in str(folder)] == [tmp_path]


async def test_who_may_see_one_folder_only_can_take_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    admin, layout = FakeAdmin({"a": FakeGroup()}), layout_in(tmp_path)
    refuse_listing(monkeypatch, tmp_path)
    assert (await snapshot(admin, layout)).manifest.groups == 1
    assert "in other folders is not known" in caplog.text


@pytest.mark.safety
async def test_a_folder_that_this_user_may_not_see_hides_no_clock_of_the_former_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One such folder, and those behind it were not looked into."""
    admin = FakeAdmin({"a": FakeGroup()})
    for name in ("a-team", "prod"):
        await snapshot(admin, Layout(tmp_path, name))
    refuse_listing(monkeypatch, Layout(tmp_path, "a-team").manifests)
    early, renamed = NOW - WEEK, Layout(tmp_path, "renamed")
    with pytest.raises(SnapshotError, match="was taken later than now"):
        await take_snapshot(admin, renamed, now=Ticking(early))
    assert "a-team" in caplog.text


async def test_each_folder_is_listed_once_for_its_snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By count: a plan, a deletion and a restore look into the folders of hundreds of clusters."""
    admin = FakeAdmin({"a": FakeGroup()})
    for name in ("prod", "other"):
        await snapshot(admin, Layout(tmp_path, name))
    listed: list[StoragePath] = []

    def noted(folder: StoragePath) -> list[str]:
        listed.append(folder)
        return Storage().ids(folder)

    monkeypatch.setattr(FILES, "ids", noted)
    assert len(list(cluster_folders.folders_with_snapshots(Layout(tmp_path, "new"), CLUSTER_ID))) == 2
    assert listed == [Layout(tmp_path, name).manifests for name in ("other", "prod")]
