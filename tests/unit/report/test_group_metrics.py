"""The numbers of groups and families, and the bound on their series."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.ledger.verdicts import Verdicts
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.report.metrics import Gauges, GroupMetrics, group_metrics, metrics_of_snapshot, shown_name
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.schemas import VERDICT_COLUMNS
from tests.fakes.groups import NOW
from tests.fakes.verdicts import VerdictRow, verdicts_of

DAY = timedelta(days=1)
GROUP = VerdictRow(
    group_id="orders",
    group_type="classic",
    protocol_type="consumer",
    state="Empty",
    members=0,
    partitions=1,
    lag=7,
    idle_since=NOW - 3 * DAY,
    idle_seconds=259_200.0,
    observations=3,
    observed_at=NOW,
    verdict="stale",
    reason="idle",
    last_moved_at=NOW - 4 * DAY,
    forecast={"offsets_expire_by": (NOW + 2 * DAY).isoformat()},
)
UUIDS = ("3f2504e0-4f89-11d3-9a0c-0305e82c3301", "3f2504e0-4f89-11d3-9a0c-0305e82c3302")


def metrics(*groups: VerdictRow, selected: GroupFilter | None = None, most: int = 500) -> GroupMetrics:
    return group_metrics(verdicts_of(groups), selected or GroupFilter(), most)


def named(group_id: str, **changes: Any) -> VerdictRow:
    return GROUP._replace(group_id=group_id, **changes)


def test_a_group_has_its_lag_its_movement_and_its_expiry() -> None:
    found = metrics(GROUP, named("live", verdict="live", lag=None, last_moved_at=None, forecast=None))
    assert found.groups == {"orders": Gauges(7, 4 * 86_400.0, 2.0), "live": Gauges(None, None, None)}
    assert (found.verdicts, found.omitted, found.observed_at) == ({"live": 1, "stale": 1}, 0, NOW)


def test_without_a_movement_the_first_observation_is_the_lower_bound() -> None:
    table = verdicts_of([GROUP._replace(last_moved_at=None)]).table
    place = table.schema.get_field_index("first_seen_at")
    seen = pa.array([NOW - 9 * DAY], table.schema.field("first_seen_at").type)
    found = group_metrics(Verdicts(table.set_column(place, "first_seen_at", seen)), GroupFilter(), 500)
    assert found.groups["orders"].idle == 9 * 86_400.0


def test_groups_with_generated_ids_are_their_family() -> None:
    first, second = (f"report-{uuid}" for uuid in UUIDS)
    found = metrics(named(first, lag=2, forecast=None), named(second, last_moved_at=NOW - DAY), GROUP)
    assert list(found.groups) == ["orders"]
    assert found.families == {"report-<uuid>": (2, Gauges(9, 86_400.0, 2.0))}


def test_the_only_group_of_a_family_is_shown_as_it_is() -> None:
    assert list(metrics(named("orders-v2")).groups) == ["orders-v2"]


def test_the_groups_with_the_largest_lag_stay_within_the_limit_and_the_others_are_counted() -> None:
    groups = [named(f"group{letter}", lag=lag) for letter, lag in zip("abcde", (5, None, 9, 9, 1), strict=True)]
    found = metrics(*groups, most=3)
    assert (list(found.groups), found.omitted) == (["groupa", "groupc", "groupd"], 2)
    assert sum(found.verdicts.values()) == 5


def test_only_selected_groups_have_numbers_and_all_are_counted() -> None:
    found = metrics(GROUP, named("payments"), selected=GroupFilter(("pay*",)))
    assert (list(found.groups), found.omitted, found.verdicts) == (["payments"], 0, {"stale": 2})


def test_long_names_are_cut_and_stay_different() -> None:
    names = {shown_name("x" * 5_000 + end) for end in ("a", "b")}
    assert len(names) == 2
    assert {len(name) for name in names} == {217}
    assert shown_name("x" * 200) == "x" * 200


def test_without_groups_there_is_no_time() -> None:
    assert metrics() == GroupMetrics()


def test_the_newest_judged_snapshot_counts_whatever_was_taken_after_it(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "prod")
    with pytest.raises(SnapshotError, match="no snapshot is judged"):
        metrics_of_snapshot(layout, None, GroupFilter(), 5)
    older, newer = "20260101T000000Z-00000000", "20260102T000000Z-00000000"
    for snapshot_id, lag in ((older, 1), (newer, 2)):
        summary, folder = layout.verdict_summary(snapshot_id), layout.verdicts(snapshot_id)
        folder.mkdir(parents=True)
        summary.parent.mkdir(parents=True, exist_ok=True)
        table = verdicts_of([GROUP._replace(lag=lag)]).table
        place = table.schema.get_field_index("first_seen_at")
        table = table.set_column(place, "first_seen_at", table["observed_at"])
        pq.write_table(table.select([column.name for column in VERDICT_COLUMNS]), str(folder / "part-0.parquet"))
        summary.write_bytes(json.dumps({"groups": 1, "files": ["part-0.parquet"]}).encode())
    (layout.root / "tables" / "verdicts" / "snapshot_id=20260103T000000Z-00000000").mkdir()  # a job that has not ended
    found = {wanted: metrics_of_snapshot(layout, wanted, GroupFilter(), 5) for wanted in (None, older)}
    assert {wanted: id_ for wanted, (id_, _) in found.items()} == {None: newer, older: older}
    assert [found[wanted][1].groups["orders"].lag for wanted in (None, older)] == [2, 1]
