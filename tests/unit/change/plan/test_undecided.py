"""What a plan says of a group that a rule may match."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.judge.policy.rules import Match, Rule, RuleAction
from tests.fakes.admin import FakeAdmin
from tests.fakes.verdicts import verdicts_of
from tests.unit.change.scene import LATER, POLICY, judge, layout_in, snapshot


async def test_the_reason_names_a_type_that_brokers_did_not_report(tmp_path: Path) -> None:
    """It blamed topics and a last client, of which the rule says nothing."""
    admin = FakeAdmin()
    admin.add("a", ("t", 0, 5))
    reader = await snapshot(admin, layout_in(tmp_path))
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
