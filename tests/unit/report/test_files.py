"""The files of a clean-up that its report names."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_kafka_groups.report.html import make_report
from tests.fakes.busy_store import busy_store
from tests.unit.change.deletion.steps import cluster
from tests.unit.change.scene import backed_up, layout_in


@pytest.mark.parametrize("busy", ["backups/", "manifests/"])
async def test_a_file_that_a_store_does_not_give_is_named(tmp_path: Path, busy: str) -> None:
    """Whoever wants to undo a deletion looks for its backup there."""
    plan, _ = await backed_up(cluster(), layout_in(tmp_path))
    store, folder = busy_store(tmp_path)
    store.busy = busy
    make_report(layout_in(folder), plan)
    name = plan.plan_id if busy == "backups/" else plan.snapshot_id
    (page,) = (tmp_path / "prod" / "reports").glob(f"{plan.plan_id}.html")
    named = page.read_text().partition("<h2>Files")[2]
    assert f"/prod/{busy}{name}.json" in named, "whether it is there is not known"
