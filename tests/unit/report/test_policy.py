"""What a report says of families and rules."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.ledger.plan_rows import KeptGroup
from airflow_kafka_groups.operators.support.question import question
from airflow_kafka_groups.report.policy import families_section, policy_section
from tests.unit.change.plan.plans import group, plan
from tests.unit.judge.policy.files import policy_of

MANY = 230
"""More families than the header of a plan has."""


def test_families_are_counted_though_the_plan_lists_the_first_ones_only() -> None:
    groups = [group(f"f{n}-{tail}", family=f"f{n}-<number>") for n in range(MANY) for tail in "12"]
    alone = KeptGroup(group_id="alone-1", verdict="live", reason="in use", family="alone-<number>")
    listed: list[dict[str, Any]] = [
        {"name": f"f{n}-<number>", "groups": 2, "planned": 2, "newest": None, "growth_per_day": None, "owners": []}
        for n in range(200)
    ]
    made = plan(groups=groups, kept=[alone, KeptGroup(group_id="x", verdict="live", reason="")], families=tuple(listed))
    page = families_section(made)
    assert 'Families <span class="count">230</span>' in page
    assert "460 of 460 planned groups" in page
    assert "The first 200 are shown" in page
    assert "… and 220 more" in question(made, "report", "it has to be")


@pytest.mark.parametrize(("share", "shown"), [("0.3", "30%"), ("0.125", "12.5%"), ("0.005", "0.5%"), ("0.001", "0.1%")])
def test_a_share_of_a_rule_is_shown_as_it_is(share: str, shown: str, tmp_path: Path) -> None:
    file = policy_of(tmp_path, f"version: 1\nrules: [{{name: a, action: delete, max_share: {share}}}]\n")
    made = plan()
    page = policy_section(plan(policy=made.policy.by_file(file)))
    assert re.search(rf"at most {re.escape(shown)} of all groups", page)


def test_a_page_names_the_first_owners_of_a_family_and_the_first_patterns() -> None:
    """By bytes: with owners by last client, each of 200,000 groups of a family had its own, in one cell of 12 MB."""
    family = {"name": "f-<number>", "groups": 9_000, "planned": 1, "newest": None, "growth_per_day": None}
    made = plan(families=({**family, "owners": [f"client-{number}" for number in range(9_000)]},))
    page = families_section(made)
    assert "client-4</bdi></code> and 8,995 more" in page
    assert len(page) < 2_000
    page = policy_section(plan(policy=PlanPolicy(exclude=tuple(f"keep-{number}" for number in range(5_000)))))
    assert "keep-199</bdi></code> and 4,800 more" in page
    assert len(page) < 20_000


def test_a_page_shows_the_limits_that_demand_something() -> None:
    """By which connection owners are notified is no limit: a report of a plan with one failed."""
    page = policy_section(plan(policy=PlanPolicy(notify={"smtp": "smtp_default"}, require_commit_log=True)))
    assert "require_commit_log" in page
    assert not re.search("smtp|max_gap_seconds|refuse_share", page)
