"""The runs of a cluster in numbers, and what happens when their file is damaged."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.report.trend import MOST_RUNS, TrendPoint, point_of, trend_page, update_trend
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.unit.change.scene import LATER, planned

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)


def point(number: int, **changes: object) -> TrendPoint:
    at = AT + number * timedelta(hours=1)
    made = TrendPoint(plan_id=f"{at:%Y%m%dT%H%M%SZ}-00000000", created_at=at, counts={"found": number})
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path, "prod")


def test_entries_are_kept_in_order_and_replaced(layout: Layout) -> None:
    update_trend(layout, point(2))
    update_trend(layout, point(1, outcomes={"kept": 3}))
    found = update_trend(layout, point(2, outcomes={"deleted": 7}, dry_run=False))
    assert found == [point(1, outcomes={"kept": 3}), point(2, outcomes={"deleted": 7}, dry_run=False)]


def test_the_newest_stay(layout: Layout) -> None:
    for number in range(MOST_RUNS + 2):
        found = update_trend(layout, point(number))
    assert [each.counts["found"] for each in found] == list(range(2, MOST_RUNS + 2))


LITERAL = (
    '{"format": 1, "cluster": "prod", "runs": [{"plan_id": "20261121T120000Z-00000000", "created_at": '
    '"2026-11-21T12:00:00+00:00", "counts": {"found": 0}, "outcomes": {"deleted": 2}, "dry_run": false}]}'
)


def test_a_stored_file_is_read_as_it_is(layout: Layout, tmp_path: Path) -> None:
    """The literal bytes: later versions must read them, too."""
    (tmp_path / "prod" / "reports").mkdir(parents=True)
    (tmp_path / "prod" / "reports" / "trend.json").write_text(LITERAL)
    assert update_trend(layout, point(1))[0] == point(0, outcomes={"deleted": 2}, dry_run=False)


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", '{"format": 1}', '{"format": 1, "runs": [{}]}'),
        LITERAL.replace('"found": 0', '"found": Infinity'),
        LITERAL.replace('"dry_run": false', '"dry_run": []'),
        LITERAL.replace('"dry_run": false', '"dry_run": "no"'),
    ],
)
def test_a_damaged_file_begins_again(tmp_path: Path, layout: Layout, content: str) -> None:
    (tmp_path / "prod" / "reports").mkdir(parents=True)
    (tmp_path / "prod" / "reports" / "trend.json").write_text(content)
    assert update_trend(layout, point(1)) == [point(1)]
    assert update_trend(layout) == [point(1)]


async def test_the_entry_of_a_plan_has_its_outcomes(tmp_path: Path, layout: Layout) -> None:
    admin = FakeAdmin()
    admin.add("a", ("t", 0, 1))
    plan = await planned(admin, layout)
    assert (point_of(plan, {}).outcomes, point_of(plan, {}).dry_run) == ({}, None)
    for outcome, dry_run in (("deleted", False), ("would_delete", True), ("kept", True), ("kept", False)):
        found = point_of(plan, {"a": {"outcome": outcome}}, dry_run=dry_run)
        assert (found.outcomes, found.dry_run) == ({outcome: 1}, dry_run)


def test_the_page_shows_every_run_and_escapes_all_names() -> None:
    evil = "<script>"
    points = [point(n, outcomes={"deleted": n, evil: n}, dry_run=n == 1) for n in range(3)]
    page = trend_page(evil, points, LATER)
    assert "<script>" not in page
    assert page.count("20261121T") == 3
    for shown in ("3 runs since", "dry run", "deletion"):
        assert shown in page
    assert "0 runs" in trend_page("prod", [], LATER)
    assert json.loads(LITERAL)["runs"]


def test_a_storage_that_fails_is_no_file_that_is_lost(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update_trend(layout, point(0, outcomes={"deleted": 2}, dry_run=False))
    path = tmp_path / "prod" / "reports" / "trend.json"
    before = path.read_text()

    def away(_: Path) -> bytes:
        raise OSError("the server does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", away)
        with pytest.raises(StorageError, match="does not answer"):
            update_trend(layout, point(1))
    assert path.read_text() == before
