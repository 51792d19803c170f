"""How many groups of the snapshot have no verdict, where verdicts are of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_kafka_groups.change.plan.make_plan import make_plan
from tests.fakes.admin import FakeAdmin
from tests.fakes.verdicts import verdicts_of
from tests.unit.change.scene import LATER, POLICY, judge, layout_in, snapshot


@pytest.mark.parametrize("verdict", ["live", "stale"])
async def test_a_verdict_of_no_group_of_the_snapshot_is_none_of_its_verdicts(verdict: str, tmp_path: Path) -> None:
    """Whatever it says: the group that has none in its place is kept, and the plan has to say so."""
    admin = FakeAdmin()
    admin.add("a", ("t", 0, 5))
    admin.add("b", ("t", 0, 5))
    reader = await snapshot(admin, layout_in(tmp_path))
    judged, other = judge(reader)
    both = verdicts_of([judged, other._replace(group_id="stranger", verdict=verdict)])
    plan = make_plan(both, reader, POLICY, LATER)
    assert plan.counts["unjudged"] == 1
    assert "1 group(s) of the snapshot have no verdict: they are kept" in plan.warnings
