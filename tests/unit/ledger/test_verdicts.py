import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.judge.evidence import NOT_REPORTED
from airflow_kafka_groups.ledger import verdicts
from airflow_kafka_groups.ledger.verdicts import load_verdicts
from airflow_kafka_groups.storage.json_files import write_json
from airflow_kafka_groups.storage.schemas import utc_times
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import NOW
from tests.unit.change.scene import layout_in, snapshot

_FILE = "part-0.snappy.parquet"


async def verdict_files(tmp_path: Path, rows: list[dict[str, Any]], summary: dict[str, Any] | None) -> tuple[Any, str]:
    reader = await snapshot(FakeAdmin(), layout_in(tmp_path))
    layout, snapshot_id = layout_in(tmp_path), reader.manifest.snapshot_id
    folder = tmp_path / "prod" / "tables" / "verdicts" / f"snapshot_id={snapshot_id}"
    folder.mkdir(parents=True)
    if rows:
        pq.write_table(pa.Table.from_pylist(rows), folder / _FILE)
    (folder / "_SUCCESS").write_bytes(b"")
    if summary is not None:
        about = {"snapshot_id": snapshot_id, "cluster": "prod", "groups": len(rows), "files": [_FILE], **summary}
        write_json(tmp_path / "prod" / "summaries" / "verdicts", f"{snapshot_id}.json", about)
    return layout, snapshot_id


def verdict_row(**changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "group_id": "g",
        "group_type": "classic",
        "protocol_type": "consumer",
        "state": "Empty",
        "members": 0,
        "coordinator": 1,
        "partitions": 2,
        "lag": None,
        "first_seen_at": NOW,
        "empty_since": NOW,
        "last_moved_at": NOW,
        "last_record_at": None,
        "idle_since": NOW,
        "idle_seconds": 10.5,
        "observations": 2,
        "observed_at": NOW,
        "verdict": "stale",
        "reason": "idle",
    }
    return {**row, **changes}


async def test_verdicts_are_read_from_what_spark_writes(tmp_path: Path) -> None:
    layout, snapshot_id = await verdict_files(tmp_path, [verdict_row(group_id="b"), verdict_row(group_id="a")], {})
    read = load_verdicts(layout, snapshot_id)
    found = list(read)
    assert [verdict.group_id for verdict in found] == ["a", "b"]
    assert (found[0].idle_seconds, found[0].observed_at, read.table["lag"][0].as_py()) == (10.5, NOW, None)


async def test_a_forecast_is_read_where_there_is_one_and_nothing_strange_gets_in(tmp_path: Path) -> None:
    told = {"lag_unknown": 0, "lost": 3, "lag_trend": -2.5, "lag_trend_since": NOW, "offsets_expire_by": None}
    strange = {"lag_unknown": None, "lost": None, "lag_trend": math.nan, "lag_trend_since": None}
    rows = [verdict_row(group_id="a", **told), verdict_row(group_id="b", **strange, offsets_expire_by=None)]
    layout, snapshot_id = await verdict_files(tmp_path, rows, {})
    table = load_verdicts(layout, snapshot_id).table
    found = [table[name].to_pylist() for name in ("lag_unknown", "lost", "lag_trend", "offsets_expire_by")]
    assert found == [[0, None], [3, None], [-2.5, None], [None, None]]
    assert utc_times(table["lag_trend_since"]) == [NOW, None]


async def test_verdicts_of_a_job_without_forecasts_are_read(tmp_path: Path) -> None:
    layout, snapshot_id = await verdict_files(tmp_path, [verdict_row()], {})
    assert load_verdicts(layout, snapshot_id).table["lag_trend"].to_pylist() == [None]


async def test_verdicts_are_sorted_by_group_whatever_the_order_of_their_file(tmp_path: Path) -> None:
    names = ["b", "a", "c"]
    layout, snapshot_id = await verdict_files(tmp_path, [verdict_row(group_id=name) for name in names], {})
    assert load_verdicts(layout, snapshot_id).group_ids == sorted(names)


async def test_a_time_without_zone_in_a_verdict_is_utc(tmp_path: Path) -> None:
    layout, snapshot_id = await verdict_files(tmp_path, [verdict_row(observed_at=NOW.replace(tzinfo=None))], {})
    assert next(iter(load_verdicts(layout, snapshot_id))).observed_at == NOW


@pytest.mark.parametrize(
    ("rows", "summary", "message"),
    [
        ([verdict_row()], None, "not judged"),
        ([verdict_row()], {"snapshot_id": "another"}, "not belong to snapshot"),
        ([verdict_row()], {"cluster": "another"}, "not belong to snapshot"),
        ([verdict_row()], {"groups": 2}, "has 2 groups, but there are verdicts of 1"),
        ([], {}, "empty"),
        ([verdict_row(), verdict_row()], {}, "judged twice"),
        ([{"group_id": "g"}], {}, "column group_type is missing"),
        ([verdict_row(verdict=None)], {}, "has no verdict"),
        ([verdict_row()], {"verdicts": {"stale": 0, "settling": 1}}, "two jobs judged at once"),
        ([verdict_row()], {"verdicts": {}}, "two jobs judged at once"),
    ],
)
async def test_verdicts_that_are_not_whole_are_refused(
    rows: list[dict[str, Any]], summary: dict[str, Any] | None, message: str, tmp_path: Path
) -> None:
    layout, snapshot_id = await verdict_files(tmp_path, rows, summary)
    with pytest.raises(SnapshotError, match=message):
        load_verdicts(layout, snapshot_id)


@pytest.mark.safety
@pytest.mark.parametrize("ended", [True, False])
async def test_verdicts_of_a_job_that_runs_meanwhile_are_not_taken_for_those_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    """The first job bridged no gap of more than an hour, the second one any gap."""
    strict, any_gap = {"policy": {"max_gap_seconds": 3600}}, {"policy": {"max_gap_seconds": 0}}
    layout, snapshot_id = await verdict_files(tmp_path, [verdict_row(verdict="settling")], strict)
    read = verdicts._read

    def judge_again(path: Path) -> Any:
        about = {"snapshot_id": snapshot_id, "cluster": "prod", "groups": 1, **any_gap}
        place = tmp_path / "prod" / "summaries/verdicts"
        (place / f"{snapshot_id}.json").unlink()
        pq.write_table(pa.Table.from_pylist([verdict_row()]), path)
        if ended:
            write_json(place, f"{snapshot_id}.json", about)
        return read(path)

    monkeypatch.setattr(verdicts, "_read", judge_again)
    with pytest.raises(SnapshotError, match="judged again" if ended else "is missing"):
        load_verdicts(layout, snapshot_id)


@pytest.mark.parametrize(
    ("summary", "gap", "not_read"),
    [
        ({}, None, NOT_REPORTED),
        ({"policy": {"max_gap_seconds": 172_800.0}, "evidence": {"not_read": "hidden"}}, 172_800.0, "hidden"),
        ({"policy": {"max_gap_seconds": 0}}, 0, NOT_REPORTED),
        ({"policy": {"max_gap_seconds": -1}, "evidence": []}, None, NOT_REPORTED),
        ({"policy": {"max_gap_seconds": "172800"}}, None, NOT_REPORTED),
        ({"policy": {"max_gap_seconds": True}}, None, NOT_REPORTED),
        ({"policy": "none"}, None, NOT_REPORTED),
    ],
)
async def test_how_the_job_judged_is_read_from_the_summary_of_any_version(
    summary: dict[str, Any], gap: float | None, not_read: str, tmp_path: Path
) -> None:
    layout, snapshot_id = await verdict_files(tmp_path, [verdict_row()], summary)
    found = load_verdicts(layout, snapshot_id).judged_by
    assert (found.max_gap_seconds, found.evidence.not_read) == (gap, not_read)


def test_times_are_read_as_they_were_stored_equal_ones_and_unknown_ones_too() -> None:
    first = datetime(2026, 1, 1, 12, 0, 0, 5, tzinfo=UTC)
    times = [first, None, first - timedelta(days=30_000), first]
    kind = pa.timestamp("us", tz="UTC")
    stored = pa.array([None if at is None else round(at.timestamp() * 1_000_000) for at in times], pa.int64()).cast(
        kind
    )
    assert utc_times(stored) == times
