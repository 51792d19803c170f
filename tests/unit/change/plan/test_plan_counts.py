"""What a plan counts and says of groups: shares, families, undecided rules, groups without a verdict."""

import math
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.change.plan.caps import Ranked, capped
from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.change.plan.question import with_families
from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy, share_of
from airflow_kafka_groups.judge.policy.rules import Match, Rule, RuleAction
from airflow_kafka_groups.ledger.floors import SiteFloors
from airflow_kafka_groups.ledger.plan_rows import PlannedGroups
from tests.fakes.verdicts import verdicts_of
from tests.unit.change.scene import LATER, POLICY, judge, snapshot_of


@pytest.mark.safety
@pytest.mark.parametrize(("share", "groups", "allowed"), [(0.9999999999, 3, 2), (0.333333333, 3, 0), (1e-10, 9, 0)])
def test_a_share_that_is_a_little_less_than_a_group_allows_none_more(share: float, groups: int, allowed: int) -> None:
    assert share_of(groups, share) == allowed


@given(st.integers(0, 300_000), st.decimals("0.000001", 1, places=6))
def test_a_share_counts_as_it_is_written(groups: int, share: Decimal) -> None:
    assert share_of(groups, float(share)) == math.floor(groups * share)


@pytest.mark.parametrize(("share", "shown"), [(0.9999999999, "0.9999999999"), (0.29, "0.29"), (1e-7, "1e-07")])
def test_a_share_is_shown_as_it_is_written(share: float, shown: str) -> None:
    """A message said of 3 of 3 groups that they are more than a max_share of 1 allows."""
    groups = [Ranked(f"g{n}", 1.0, None) for n in range(3)]
    (warning,) = capped(groups, 3, PlanPolicy(max_share=share))[2]
    assert f"more than max_share {shown} allows" in warning
    with pytest.raises(PlanError, match=f"limits.refuse_share of {shown} allows"):
        capped(groups, 3, PlanPolicy(max_share=1.0, refuse_share=share))
    with pytest.raises(PlanError, match=f"the site's max_share is {shown}:"):
        SiteFloors(max_share=share).require_share(3, 3, dry_run=False)


class Counted:
    """The columns of planned groups, of which each is counted as often as somebody takes it."""

    def __init__(self, size: int) -> None:
        self.size, self.taken = size, 0

    def column(self, name: str) -> Any:
        return self if name == "family" else [f"job-{number}" for number in range(self.size)]

    def __iter__(self) -> Iterator[str]:
        for _ in range(self.size):
            self.taken += 1
            yield "job-<number>"


def test_the_groups_of_a_plan_are_not_looked_through_for_each_name() -> None:
    """By count: who excludes the 10,000 groups of a plan one by one would wait for 100 million comparisons."""
    planned = Counted(50)
    names = [*(f"job-{number}" for number in range(40)), "x"]
    assert with_families(cast(PlannedGroups, planned), names) == names
    assert planned.taken <= 2 * 50
    members = [f"job-{number}" for number in range(50)]
    assert with_families(cast(PlannedGroups, planned), ["x", "job-<number>"]) == ["x", *members]


async def test_the_reason_names_a_type_that_brokers_did_not_report(tmp_path: Path) -> None:
    """It blamed topics and a last client, of which the rule says nothing."""
    reader = await snapshot_of(tmp_path, "a")
    keeps = Rule(
        name="keeps",
        action=RuleAction.KEEP,
        match=Match(types=("consumer",)),
        min_idle_seconds=3_600,
        min_observations=2,
    )
    rest = replace(keeps, name="rest", action=RuleAction.DELETE, match=Match())
    verdicts = verdicts_of(judge(reader, group_type="unknown"))
    (kept,) = make_plan(verdicts, reader, replace(POLICY, rules=(keeps, rest)), LATER).kept
    assert kept.verdict == "by_rule"
    assert "the type, the topics or the last client that 'keeps' asks for are not known" in kept.reason


@pytest.mark.parametrize("verdict", ["live", "stale"])
async def test_a_verdict_of_no_group_of_the_snapshot_is_none_of_its_verdicts(verdict: str, tmp_path: Path) -> None:
    """Whatever it says: the group that has none in its place is kept, and the plan has to say so."""
    reader = await snapshot_of(tmp_path, "a", "b")
    judged, other = judge(reader)
    both = verdicts_of([judged, other._replace(group_id="stranger", verdict=verdict)])
    plan = make_plan(both, reader, POLICY, LATER)
    assert plan.counts["unjudged"] == 1
    assert "1 group(s) of the snapshot have no verdict: they are kept" in plan.warnings
