"""A cluster's folder that was renamed, as after its connection was: each error says where its files belong."""

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_kafka_groups.change.backup.file import load_backup
from airflow_kafka_groups.exceptions import MaintenanceError
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan, load_plan
from airflow_kafka_groups.observe.snapshot.reader import latest_manifest
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.change.scene import backed_up, layout_in


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
