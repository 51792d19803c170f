"""Which snapshots count: those after a plan was judged, and those of a cluster's other folders."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.change.backup.make_backup import BackupRequest, back_up
from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.change.restore import change_offsets as recorded
from airflow_kafka_groups.exceptions import SnapshotError, StorageError
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.ledger import Known, Ledger
from airflow_kafka_groups.observe.snapshot.cluster_folders import (
    KnownSnapshots,
    folders_with_snapshots,
    later_snapshots,
)
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.storage.file_storage import FILES, Storage
from airflow_kafka_groups.storage.layout import Layout, StoragePath
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, NOW, FakeGroup, Ticking
from tests.fakes.refusing_path import refuse_listing
from tests.fakes.verdicts import verdicts_of
from tests.unit.change.scene import LATER, POLICY, judge, layout_in, restored, snapshot

pytestmark = pytest.mark.safety
MINUTE = timedelta(minutes=1)


class Slow:
    """The clock of a snapshot that begins at a time, and reads everything some minutes later."""

    def __init__(self, began: datetime, minutes: int) -> None:
        self.times = [began, began + minutes * MINUTE]

    def __call__(self) -> datetime:
        return self.times.pop(0) if len(self.times) > 1 else self.times[0]


async def test_a_slow_snapshot_that_began_before_is_later_too(tmp_path: Path) -> None:
    admin, layout = FakeAdmin({"g": FakeGroup()}), layout_in(tmp_path)
    before = await take_snapshot(admin, layout, now=Ticking(NOW - 9 * MINUTE))
    slow = await take_snapshot(admin, layout, now=Slow(NOW - MINUTE, 4))
    judged = await take_snapshot(admin, layout, now=Ticking(NOW))
    after = await take_snapshot(admin, layout, now=Ticking(NOW + 9 * MINUTE))
    admin.cluster = "another"
    await take_snapshot(admin, layout, now=Ticking(NOW + 10 * MINUTE))
    found = [each.manifest.snapshot_id for each in later_snapshots(layout, judged.snapshot_id, CLUSTER_ID)]
    assert found == [slow.snapshot_id, after.snapshot_id]
    Path(str(layout.snapshot_data(before.snapshot_id))).rename(tmp_path / "gone")  # noqa: ASYNC240  # it is fast
    assert len(list(later_snapshots(layout, judged.snapshot_id, CLUSTER_ID))) == 2, "its rows are no matter"
    layout.manifest(slow.snapshot_id).write_bytes(b"{")
    with pytest.raises(SnapshotError):
        list(later_snapshots(layout, judged.snapshot_id, CLUSTER_ID))


async def test_the_first_snapshot_of_another_connection_during_a_deletion_counts(tmp_path: Path) -> None:
    """Its folder is made by it, or has had none of this cluster; other clusters' folders are looked into once."""
    admin, layout = FakeAdmin({"g": FakeGroup()}), layout_in(tmp_path)
    judged, known = await take_snapshot(admin, layout, now=Ticking(NOW)), KnownSnapshots()
    (tmp_path / "empty").mkdir()

    def news() -> list[str]:
        found = later_snapshots(layout, judged.snapshot_id, CLUSTER_ID, known)
        return [each.manifest.snapshot_id for each in found]

    assert news() == []
    for name in ("new", "empty"):
        taken = await take_snapshot(admin, Layout(tmp_path, name), now=Ticking(NOW + 9 * MINUTE))
        assert news() == [taken.snapshot_id]
    assert news() == []


WEEK = timedelta(days=7)


async def restore_by_a_clock_that_is_behind(admin: FakeAdmin, layout: Layout, patch: pytest.MonkeyPatch) -> None:
    """Let another program delete a group, and a worker whose clock is behind restore it."""
    saved = await back_up(admin, layout, BackupRequest())
    admin.groups.clear()
    patch.setattr(recorded, "utc_now", lambda: NOW - WEEK)
    done = await restored(admin, layout, saved.plan_id)
    assert done.counts["changed"] == 1


async def next_plan(admin: FakeAdmin, layout: Layout) -> DeletionPlan:
    reader = await snapshot(admin, layout)
    policy, kept = replace(POLICY, min_idle_seconds=WEEK.total_seconds()), Ledger(layout, CLUSTER_ID).wanted()
    return make_plan(verdicts_of(judge(reader)), reader, policy, LATER, Known(kept_alive=kept))


async def test_a_group_that_is_restored_by_a_connection_without_snapshots_is_spared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No snapshot shows that it was gone: by the record it was restored a week ago, and so the next plan had it."""
    admin, layout = FakeAdmin({"a": FakeGroup()}, log=(0, 10)), layout_in(tmp_path)
    await snapshot(admin, layout)
    assert (await next_plan(admin, layout)).group_ids == ["a"]
    await restore_by_a_clock_that_is_behind(admin, Layout(tmp_path, "for-restores"), monkeypatch)
    assert (await next_plan(admin, layout)).group_ids == []


async def test_the_snapshots_of_another_cluster_tell_nothing(tmp_path: Path) -> None:
    admin, layout = FakeAdmin({"a": FakeGroup()}), layout_in(tmp_path)
    admin.cluster = "another"
    await snapshot(admin, layout)
    early, other = NOW - WEEK, Layout(tmp_path, "other")
    assert Ledger(other, CLUSTER_ID).latest_time(early) == early
    assert Ledger(other, "another").latest_time(early) > NOW


async def test_a_folder_that_cannot_be_listed_ends_no_restore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore has to work when hardly anything does: the storage may give each connection its own folder only."""
    admin, other = FakeAdmin({"a": FakeGroup()}, log=(0, 10)), Layout(tmp_path, "for-restores")
    await snapshot(admin, layout_in(tmp_path))
    refuse_listing(monkeypatch, layout_in(tmp_path).manifests)
    await restore_by_a_clock_that_is_behind(admin, other, monkeypatch)
    with pytest.raises(StorageError, match="prod"):
        list(folders_with_snapshots(other, CLUSTER_ID))


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
        return Storage().folders(folder)

    monkeypatch.setattr(FILES, "folders", noted)
    for hour in range(0, 24, 6):
        await take_snapshot(admin, layout, now=Ticking(NOW + timedelta(hours=hour)))
    assert listed == [tmp_path]


async def test_who_may_see_one_folder_only_can_take_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    admin, layout = FakeAdmin({"a": FakeGroup()}), layout_in(tmp_path)
    refuse_listing(monkeypatch, tmp_path)
    assert (await snapshot(admin, layout)).manifest.groups == 1
    assert "in other folders is not known" in caplog.text


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
    assert len(list(folders_with_snapshots(Layout(tmp_path, "new"), CLUSTER_ID))) == 2
    assert listed == [Layout(tmp_path, name).manifests for name in ("other", "prod")]
