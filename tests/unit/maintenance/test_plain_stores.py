"""Storages of fsspec with folders that have to be made, such as SFTP, SMB and HDFS."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from airflow_kafka_groups.maintenance.keep_alive.records import KeepAliveRecords
from airflow_kafka_groups.maintenance.restore.from_backup import propose_restore
from airflow_kafka_groups.maintenance.restore.recorded import change_recorded
from tests.fakes.admin import FakeAdmin
from tests.fakes.busy_store import busy_store
from tests.unit.maintenance.scene import backed_up, delete_plan, layout_in

pytestmark = pytest.mark.safety


async def test_a_clean_up_makes_its_folders(tmp_path: Path) -> None:
    admin = FakeAdmin(log=(0, 10))
    admin.add("a", ("t", 0, 5), protocol_type="")
    _, folder = busy_store(tmp_path / "new")
    layout = layout_in(folder)
    plan, _ = await backed_up(admin, layout)
    assert (await delete_plan(admin, layout, plan)).report.counts["deleted"] == 1
    propose = partial(propose_restore, admin, layout, plan.plan_id)
    await change_recorded(
        admin, layout, "restore", propose, protects=lambda _: False, dry_run=False, may_be_absent=True
    )
    assert set(admin.groups) == set(KeepAliveRecords(layout).read()) == {"a"}
