"""A rule by owner may match a group whose last client is not known, where the policy finds owners by it."""

from pathlib import Path

import pytest

from airflow_kafka_groups.ledger.deletion_plan import least_idle_times
from airflow_kafka_groups.ledger.floors import SiteFloors
from tests.exhaustive.change.plan.by_policy import plan_by, world
from tests.exhaustive.change.plan.notices import DAY, Story, waiting
from tests.fakes.groups import NOW
from tests.unit.judge.policy.files import policy_of

POLICY = """\
    version: 1
    defaults: {contact: all@example.com}
    owners:
      payments: {groups: "ledger*"}
      search: {groups: "search*"}
    rules:
      - {name: pay, match: {owners: payments}, action: delete, idle: 8d, approval: always}
      - {name: batch, match: {groups: "b*", clients: "batch*"}, action: delete, idle: 1d}
      - {name: rest, action: delete, idle: 1d}
    """


@pytest.mark.safety
async def test_a_rule_by_owner_that_may_match_demands_its_approval_and_idle_time(tmp_path: Path) -> None:
    """The group may be that of the client ``payments``, and was deleted without the approval that this rule demands."""
    plan = await plan_by(policy_of(tmp_path, POLICY), world("x1"), tmp_path)
    assert {group.group_id: group.rule for group in plan.groups} == {"x1": "rest"}
    assert plan.rules_to_approve == ["pay"]
    assert SiteFloors().approval(None, plan).rule == "always"
    assert least_idle_times(plan) == {"x1": 8 * 86_400.0}, "a restart of its idle time since counts by that"


async def test_a_group_with_another_owner_needs_neither(tmp_path: Path) -> None:
    plan = await plan_by(policy_of(tmp_path, POLICY), world("search1"), tmp_path)
    assert (plan.group_ids, plan.rules_to_approve) == (["search1"], [])
    assert least_idle_times(plan) == {"search1": 1 * 86_400.0}


@pytest.mark.safety
async def test_a_notice_of_a_rule_by_owner_that_may_match_holds_at_the_deletion_too(tmp_path: Path) -> None:
    story = Story(tmp_path, "x1", policy=POLICY.replace("approval: always", "notice: 2d"))
    plan = await story.plan(NOW)
    assert waiting(plan) == ["x1"]
    story.notify(plan, NOW)
    assert [notice.notice_seconds for notice in story.sent] == [2 * 86_400.0]
    later = await story.plan(NOW + 3 * DAY)
    assert await story.delete(later, NOW + 3 * DAY) == {"x1": ("deleted", "safe")}
