"""The power fails, and a disk loses whatever was not fsynced, also the names of folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_kafka_groups.change.backup.file import load_backup
from airflow_kafka_groups.ledger.journal import read_history
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, Ticking
from tests.fakes.power_cut import PowerCut
from tests.unit.change.scene import LATER, backed_up, delete_plan, layout_in, restored

pytestmark = pytest.mark.safety


def cluster() -> FakeAdmin:
    admin = FakeAdmin(log=(0, 10))
    admin.add("a", ("t", 0, 5), protocol_type="")
    return admin


async def test_what_was_deleted_has_its_backup_and_its_intent_also_in_the_first_clean_up_of_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another cluster's journal is there already, so the storage folder itself gets no new name that is fsynced."""
    (tmp_path / "_journal" / "of another cluster").mkdir(parents=True)
    disk = PowerCut(tmp_path, monkeypatch)
    admin, layout = cluster(), layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    assert (await delete_plan(admin, layout, plan)).report.counts["deleted"] == 1
    disk.happen()
    assert set(load_backup(layout, plan.plan_id).entries) == {"a"}
    assert set(read_history(layout, CLUSTER_ID).deletions()) == {"a"}


async def test_the_first_restore_of_a_folder_is_known_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    disk = PowerCut(tmp_path, monkeypatch)
    del admin.groups["a"]
    await restored(admin, layout, plan.plan_id)
    assert set(admin.groups) == {"a"}
    disk.happen()
    assert set(Ledger(layout, CLUSTER_ID).wanted()) == {"a"}


async def test_a_snapshot_that_was_taken_shows_afterwards_that_a_group_was_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its group is Empty again when the plan that waited is approved."""
    admin, layout = cluster(), layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    disk = PowerCut(tmp_path, monkeypatch)
    admin.groups["a"].members = 1
    await take_snapshot(admin, layout, now=Ticking(LATER))
    admin.groups["a"].members = 0
    disk.happen()
    report = (await delete_plan(admin, layout, plan)).report
    assert (report.counts["deleted"], report.kept_reasons) == (0, {"alive_before": 1})
