"""A plan as the versions before rules, owners and families wrote it: the very bytes are read still."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.maintenance.plan.deletion_plan import find_in_plan, load_plan
from airflow_kafka_groups.maintenance.plan.plan_rows import KeptGroup
from airflow_kafka_groups.maintenance.plan.policy import PlanPolicy
from airflow_kafka_groups.maintenance.storage import Layout
from tests.fakes.groups import NOW
from tests.unit.maintenance.plan.plans import ID, group

FILES = Path(__file__).with_name("format_2")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Return the storage of an earlier version."""
    shutil.copytree(FILES, tmp_path / "prod" / "plans")
    return Layout(tmp_path, "prod")


def test_a_plan_of_the_second_format_is_read_still(layout: Layout) -> None:
    read = load_plan(layout, ID)
    dead = group("dead", forecast={"lag_unknown": 0, "lost": 3, "lag_trend": -2.5, "lag_trend_since": NOW.isoformat()})
    assert list(read.groups) == [dead, group("café", lag=None, idle_since=None, idle_seconds=None)]
    assert list(read.kept) == [KeptGroup(group_id="busy", verdict="live", reason="in use")]
    assert read.digest == json.loads((FILES / f"{ID}.json").read_text())["digest"]
    assert (read.policy, list(read.families), read.rules_to_approve) == (PlanPolicy(), [], [])
    assert find_in_plan(layout, ID, "dead") == dead
    assert find_in_plan(layout, ID, "busy") == read.kept[0]


@pytest.mark.parametrize("name", [f"{ID}.json", f"{ID}.parquet"])
def test_any_edit_of_it_is_refused(layout: Layout, name: str) -> None:
    (path,) = [each for each in (layout.root / "plans").iterdir() if each.name == name]
    content = path.read_bytes()
    for place in (len(content) // 3, len(content) // 2):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(PlanError):
            load_plan(layout, ID)
