"""Columns made of buffers are what pyarrow makes of the same values, and no task imports pandas for them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.admin.arrow_values import column, fill_nulls, literal, repeat
from airflow_kafka_groups.maintenance.snapshot.collect import take_snapshot
from airflow_kafka_groups.models import GroupState
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import Ticking
from tests.unit.maintenance.scene import layout_in

EPOCH = datetime(1970, 1, 1)
VALUES = st.sampled_from(
    [
        (pa.string(), st.text(max_size=5)),
        (pa.bool_(), st.booleans()),
        (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
        (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
        (pa.list_(pa.string()), st.lists(st.none() | st.text(max_size=5), max_size=3)),
        (
            pa.timestamp("us", tz="UTC"),
            st.datetimes(EPOCH, EPOCH.replace(year=2200), timezones=st.just(UTC)),
        ),
    ]
)


@given(VALUES, st.data())
def test_a_column_is_what_pyarrow_makes_of_it(of: tuple[Any, Any], data: st.DataObject) -> None:
    kind, values = of
    drawn = data.draw(st.lists(st.none() | values, max_size=20))
    made = column(drawn, kind)
    made.validate(full=True)
    assert made.equals(pa.array(drawn, kind))
    assert (made.type, made.null_count, made.to_pylist()) == (kind, drawn.count(None), drawn)


@pytest.mark.parametrize(
    ("value", "kind"), [("ü", None), (True, None), (False, None), (7, None), (7, pa.int32()), (None, pa.string())]
)
def test_a_single_value_is_what_pyarrow_makes_of_it(value: Any, kind: Any) -> None:
    assert literal(value, kind).equals(pa.scalar(value, kind))


@pytest.mark.parametrize(("values", "value"), [([1, None, 3], -1), (["a", None], ""), ([True, None], False)])
def test_nulls_are_filled_as_pyarrow_fills_them(values: list[Any], value: Any) -> None:
    assert fill_nulls(pa.array(values), value).equals(pc.fill_null(pa.array(values), value))
    assert fill_nulls(pa.array(values[:1]), value).equals(pa.array(values[:1]))


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64()])
def test_values_are_repeated_by_runs(kind: Any) -> None:
    values = pa.array(["a", None, "c"])
    assert repeat(values, pa.array([1, 3, 4], kind)).to_pylist() == ["a", None, None, "c"]
    assert repeat(values[:0], pa.array([], kind)).to_pylist() == []


@pytest.mark.parametrize(
    ("values", "kind", "error"),
    [([1], pa.string(), TypeError), (["1"], pa.int32(), TypeError), ([2**31], pa.int32(), OverflowError),
     ([1.5], pa.float64(), TypeError)],
)  # fmt: skip
def test_what_fits_no_column_is_refused(values: list[Any], kind: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        column(values, kind)


_JOB = """
import asyncio, sys
from pathlib import Path

class NoPandas:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            raise RuntimeError("pandas is imported")

sys.meta_path.insert(0, NoPandas())
from airflow_kafka_groups.maintenance.backup.planned import backup_groups
from airflow_kafka_groups.maintenance.plan.deletion_plan import find_in_plan, load_plan, save_plan
from airflow_kafka_groups.maintenance.plan.make_plan import make_plan
from airflow_kafka_groups.maintenance.plan.verdicts import load_verdicts
from airflow_kafka_groups.maintenance.restore.changes import apply_changes
from airflow_kafka_groups.maintenance.restore.from_backup import propose_restore
from airflow_kafka_groups.maintenance.snapshot.collect import take_snapshot
from airflow_kafka_groups.maintenance.snapshot.reader import SnapshotReader
from airflow_kafka_groups.maintenance.report.write import make_report
from tests.fakes.groups import Ticking
from tests.unit.admin.test_arrow_values import cluster
from tests.unit.maintenance.scene import LATER, POLICY, delete_plan, layout_in

async def job(layout, snapshot_id):
    admin = cluster()
    await take_snapshot(admin, layout, now=Ticking(LATER))
    snapshot = SnapshotReader(layout, snapshot_id)
    save_plan(layout, plan := make_plan(load_verdicts(layout, snapshot_id), snapshot, POLICY, LATER))
    plan = load_plan(layout, plan.plan_id)
    assert find_in_plan(layout, plan.plan_id, "g1").group_id == "g1"
    await backup_groups(admin, layout, plan, now=Ticking(LATER))
    result = await delete_plan(admin, layout, plan)
    assert result.report.counts["deleted"] == 9, result.report.counts
    make_report(layout, plan)
    changes = await propose_restore(admin, layout, plan.plan_id)
    results = await apply_changes(admin, changes, dry_run=False, may_be_absent=True)
    assert {item.outcome.value for item in results} == {"changed"}, results

asyncio.run(job(layout_in(Path(sys.argv[1])), sys.argv[2]))
"""


def cluster() -> FakeAdmin:
    admin = FakeAdmin(log=(0, 100))
    for number in range(9):
        admin.add(f"g{number}", ("t", 0, number), ("t", 1, 5), ("u", 0, 1))
    admin.add("live", ("t", 0, 5), state=GroupState.STABLE, members=1)
    return admin


async def test_a_clean_up_and_a_restore_import_no_pandas(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="nothing could import it")
    summary = await take_snapshot(cluster(), layout_in(tmp_path), now=Ticking())
    from tests.unit.operators.scene import judge  # imports Airflow

    judge(tmp_path, summary.snapshot_id, stale={f"g{number}" for number in range(9)})
    job = [sys.executable, "-c", _JOB, str(tmp_path), summary.snapshot_id]
    done = await asyncio.to_thread(subprocess.run, job, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
