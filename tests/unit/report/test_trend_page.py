from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

from airflow_kafka_groups.report.trend import trend_page
from tests.unit.report.test_figures import NOW, numbers, point


def test_a_group_that_each_run_shows_is_read_out_as_one() -> None:
    """Whoever cannot see the charts heard of 20 groups, and of 6 that dry runs deleted: the sums over the runs."""
    runs = [
        replace(point(days, live=7, stale=3), outcomes={"would_delete": 3}, dry_run=True, families={"f-<uuid>": 4})
        for days in (2, 1)
    ]
    assert re.findall('aria-label="([^"]*most in[^"]*)"', trend_page("prod", runs, NOW + timedelta(hours=1))) == [
        "Groups over time, by verdict: most in Nov 19: 10",
        "Groups deleted: most in Nov 19: 3",
        "Groups of the largest families: most in Nov 19: 4",
    ]


def test_a_family_that_a_run_did_not_record_is_not_said_to_have_had_no_group() -> None:
    """An entry has the 20 largest families only: one that grew into them seemed to have come from nothing."""
    few = {f"f{number}-<uuid>": 50 for number in range(19)}
    before = replace(point(2), families={**few, "old-<uuid>": 50})
    alone = replace(point(1.5), families={"old-<uuid>": 7})
    now = replace(point(1), families={**few, "grown-<uuid>": 90})
    page = trend_page("prod", [before, alone, now], NOW)
    figure = page[page.index("Groups of the largest families") :].partition("</figure>")[0]
    of_grown = [row[0] for row in numbers(figure).values()]
    assert of_grown == ["-", "0", "90"]


def test_the_plan_of_an_earlier_version_is_not_said_to_have_had_no_family() -> None:
    """It names none, also where the trend is made again from it: each family seemed to begin with the new version."""
    page = trend_page("prod", [replace(point(2), families={}), replace(point(1), families={"f-<uuid>": 90})], NOW)
    figure = page[page.index("Groups of the largest families") :].partition("</figure>")[0]
    assert [row[0] for row in numbers(figure).values()] == ["-", "90"]


def test_a_run_without_any_family_is_said_to_have_had_none() -> None:
    """A family that was new seemed to have been there before, not recorded."""
    plan = replace(point(2), counts={"found": 3, "by_rule": 0}, families={})
    page = trend_page("prod", [plan, replace(point(1), families={"f-<uuid>": 90})], NOW)
    figure = page[page.index("Groups of the largest families") :].partition("</figure>")[0]
    assert [row[0] for row in numbers(figure).values()] == ["0", "90"]
