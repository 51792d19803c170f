"""Which snapshots may show what happened since a plan was judged."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.later_snapshots import KnownSnapshots, later_snapshots
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, NOW, FakeGroup, Ticking
from tests.unit.change.scene import layout_in

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
