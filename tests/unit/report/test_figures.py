from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from airflow_kafka_groups.report import charts as figures
from airflow_kafka_groups.report.trend_points import TrendPoint

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def numbers(figure: str) -> dict[str, list[str]]:
    """Return the rows of the figure's table."""
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", figure)]
    return {row[0]: row[1:] for row in cells if row}


def point(days: float, **counts: int) -> TrendPoint:
    at = NOW - days * DAY
    return TrendPoint(plan_id=f"{at:%Y%m%dT%H%M%SZ}-00000000", created_at=at, counts=counts)


def test_idle_times_are_counted_by_age() -> None:
    idle = [(None, False), (0.0, False), (3_599.0, True), (86_400.0, False), (90 * 86_400.0, True), (1e12, True)]
    found = numbers(figures.idle_ages(idle))
    assert {label: values for label, values in found.items() if values != ["0", "0"]} == {
        "&lt;1 h": ["1", "1"],
        "&lt;3 d": ["1", "0"],
        "≥90 d": ["0", "2"],
    }


def test_expiries_are_counted_by_the_time_that_is_left() -> None:
    found = numbers(figures.expiry_ahead([None, *((NOW + DAY * days).timestamp() for days in (-1, 0.5, 2, 400))], NOW))
    assert {label: values for label, values in found.items() if values != ["0"]} == {
        "past": ["1"],
        "1 d": ["1"],
        "3 d": ["1"],
        "later": ["1"],
    }


def test_the_largest_lag_in_a_week_comes_first_and_does_not_fall_below_none() -> None:
    groups = [("", 5, None), ("falls", 100, -50.0), ("grows", 10, 2.0), ("unknown", None, 9.0), ("none", 0, 0.0)]
    assert numbers(figures.lag_ahead(groups)) == {"grows": ["10", "14"], "(empty id)": ["5", "0"]}
    assert len(numbers(figures.lag_ahead([(f"g{n}", n, 0.0) for n in range(100)]))) == 8


def test_families_that_grow_are_shown_by_their_growth() -> None:
    families = [{"name": name, "growth_per_day": growth} for name, growth in (("a", 1.5), ("b", None), ("c", 9.0))]
    assert list(numbers(figures.family_growth(families))) == ["c", "a"]


def test_runs_are_shown_by_verdict_and_only_the_newest() -> None:
    found = numbers(figures.verdicts_over_time([point(3, live=1), point(2, live=2), point(1, stale=4, odd=7)], most=2))
    assert {label: values[:4] for label, values in found.items()} == {
        "Nov 19": ["2", "0", "0", "0"],
        "Nov 20": ["0", "0", "0", "4"],
    }


def test_further_runs_of_a_day_are_labelled_by_their_time() -> None:
    assert figures.run_labels([point(1), point(0.5), point(0.25), point(0)]) == ["Nov 20", "Nov 21", "06:00", "12:00"]
    assert figures.run_labels([]) == []


def test_the_runs_of_more_than_a_year_are_labelled_with_their_year() -> None:
    """Weekly ones are there for 21 months: two had the same day, and one of a year later looked like one of it."""
    assert figures.run_labels([point(365), point(364), point(0)]) == ["Nov 21 2025", "Nov 22 2025", "Nov 21 2026"]
    assert figures.run_labels([point(365), point(0)]) == ["Nov 21 2025", "Nov 21 2026"]
    assert figures.run_labels([point(364), point(0)]) == ["Nov 22", "Nov 21"]
