"""A trend that is made again from the plans, of a cluster whose groups are mostly deleted by name."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.ledger.deletion_plan import NAMED_BY_HAND
from airflow_kafka_groups.report import trend_points as points
from airflow_kafka_groups.report.trend_points import point_of, update_trend
from airflow_kafka_groups.storage.paths import new_id
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import NOW, FakeGroup
from tests.unit.change.scene import layout_in, planned


async def test_many_deletions_by_name_do_not_hide_the_plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mapped task makes a plan for each of its chunks: after 30 of these, the trend began with nothing."""
    layout = layout_in(tmp_path)
    plan = await planned(FakeAdmin({"a": FakeGroup()}), layout)
    header = json.loads(Path(str(layout.plan(plan.plan_id))).read_text())  # noqa: ASYNC240  # it is fast
    for minute in range(40):
        plan_id = new_id(NOW + timedelta(days=1, minutes=minute))
        content = {**header, "plan_id": plan_id, "snapshot_id": NAMED_BY_HAND}
        Path(str(layout.plan(plan_id))).write_text(json.dumps(content))  # noqa: ASYNC240
    newest = point_of(await planned(FakeAdmin({"a": FakeGroup()}), layout, now=NOW + timedelta(hours=2)), {})
    assert [each.plan_id for each in update_trend(layout, newest)] == [plan.plan_id, newest.plan_id]
    monkeypatch.setattr(points, "_MOST_READ", 10)
    (layout.root / "reports" / "trend.json").unlink()
    assert [each.plan_id for each in update_trend(layout, newest)] == [newest.plan_id], "they are read to an end"
