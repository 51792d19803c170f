"""Charts and the trend: each number is exact in its table, and what is nowhere is not drawn."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from airflow_kafka_groups.report import charts as figures
from airflow_kafka_groups.report.charts import Series, bars, columns
from airflow_kafka_groups.report.trend import TrendPoint, trend_page, verdicts_over_time

EVIL = '<b onclick="x">'


def heights(svg: str, kind: str) -> list[float]:
    return [float(value) for value in re.findall(rf'<rect class="{kind}"[^>]* height="([\d.]+)"><title>', svg)]


def test_columns_are_as_high_as_their_share_and_stand_on_one_another() -> None:
    svg = columns("Groups", ["a", "b"], [Series("x", "c-x", [1, 4]), Series("y", "c-y", [1, 0])])
    assert heights(svg, "c-x") == [37.0, 148.0]
    assert heights(svg, "c-y") == [37.0]
    assert re.findall(r'class="value"[^>]*>([^<]*)<', svg) == ["2", "4"]
    assert 'aria-label="Groups: 6 groups, most in b: 4"' in svg


def test_of_many_columns_some_are_labelled_and_the_highest_has_its_value() -> None:
    svg = columns("Groups", [f"l{n}" for n in range(30)], [Series("x", "c-x", [*range(1, 30), 12_345])])
    drawn = svg.partition("<details>")[0]
    assert re.findall(r">(l\d+)<", re.sub(r"<title>.*?</title>", "", drawn)) == ["l0", "l5", "l10", "l15", "l20", "l25"]
    assert re.findall(r'class="value"[^>]*>([^<]*)<', drawn) == ["12.3k"]


def test_every_number_is_in_the_table() -> None:
    svg = columns("Groups", ["a"], [Series("x", "c-x", [1_234_567]), Series("none", "c-y", [0])])
    table = svg.partition("<details>")[2]
    assert re.findall(r'<td class="num">([^<]*)<', table) == ["1,234,567", "0"]
    assert "none" not in svg.partition("<details>")[0], "what is nowhere needs no legend"


def test_bars_are_as_long_as_their_share_and_negative_parts_are_not_drawn() -> None:
    svg = bars(
        "Lag", ["a", "b"], [Series("now", "c-x", [30.0, 10.0]), Series("more", "c-y", [10.0, -5.0])], what="records"
    )
    assert re.findall(r'<rect class="(c-\w)" x="([\d.]+)%" width="([\d.]+)%"', svg.partition("<details>")[0]) == [
        ("c-x", "0.00", "75.00"),
        ("c-y", "75.00", "25.00"),
        ("c-x", "0.00", "25.00"),
    ]


def test_nothing_is_a_sentence() -> None:
    for svg in (columns("Groups", [], []), bars("Lag", ["a"], [Series("x", "c-x", [0])], what="records")):
        assert "Nothing to show." in svg
        assert "<svg" not in svg


def test_names_are_escaped_and_cut() -> None:
    label = EVIL + "x" * 5_000
    for svg in (
        columns("T", [label], [Series("x", "c-x", [1])]),
        bars("T", [label], [Series("x", "c-x", [1])], what="w"),
    ):
        assert "<b " not in svg
        assert len(svg) < 3_000


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


def test_families_that_grow_are_shown_by_their_growth() -> None:
    families = [{"name": name, "growth_per_day": growth} for name, growth in (("a", 1.5), ("b", None), ("c", 9.0))]
    assert list(numbers(figures.family_growth(families))) == ["c", "a"]


def test_runs_are_shown_by_verdict_and_only_the_newest() -> None:
    found = numbers(verdicts_over_time([point(3, live=1), point(2, live=2), point(1, stale=4, odd=7)], most=2))
    assert {label: values[:4] for label, values in found.items()} == {
        "Nov 19": ["2", "0", "0", "0"],
        "Nov 20": ["0", "0", "0", "4"],
    }


def test_further_runs_of_a_day_are_labelled_by_their_time() -> None:
    times = [NOW - days * DAY for days in (1, 0.5, 0.25, 0)]
    assert figures.time_labels(times) == ["Nov 20", "Nov 21", "06:00", "12:00"]


def test_a_group_that_each_run_shows_is_read_out_as_one() -> None:
    """Whoever cannot see the charts heard of 20 groups, and of 6 that dry runs deleted: the sums over the runs."""
    runs = [replace(point(days, live=7, stale=3), outcomes={"would_delete": 3}, dry_run=True) for days in (2, 1)]
    assert re.findall('aria-label="([^"]*most in[^"]*)"', trend_page("prod", runs, NOW + timedelta(hours=1))) == [
        "Groups over time, by verdict: most in Nov 19: 10",
        "Groups deleted: most in Nov 19: 3",
    ]
