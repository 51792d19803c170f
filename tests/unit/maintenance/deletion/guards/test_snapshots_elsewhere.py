"""A plan waits for its approval, and another connection to the cluster takes snapshots, in a folder of its own."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.maintenance.snapshot.collect import take_snapshot
from airflow_kafka_groups.maintenance.storage import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, Ticking
from tests.unit.maintenance.deletion.steps import delete, fates
from tests.unit.maintenance.scene import LATER, backed_up, layout_in

pytestmark = pytest.mark.safety


@pytest.mark.parametrize(("cluster_id", "kept"), [(None, True), ("another", False)])
async def test_a_group_that_such_a_snapshot_shows_in_use_is_kept(
    tmp_path: Path, cluster_id: str | None, kept: bool
) -> None:
    admin, layout = FakeAdmin({"a": FakeGroup(), "b": FakeGroup()}), layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    known = admin.cluster
    admin.groups["a"], admin.cluster = FakeGroup(members=2), cluster_id or known
    await take_snapshot(admin, Layout(tmp_path, "renamed"), now=Ticking(LATER + timedelta(hours=1)))
    admin.groups["a"], admin.cluster = FakeGroup(), known
    report = await delete(admin, layout, plan, now=Ticking(LATER + timedelta(hours=2)))
    assert fates(report) == {"a": "kept:alive_before" if kept else "deleted:safe", "b": "deleted:safe"}
