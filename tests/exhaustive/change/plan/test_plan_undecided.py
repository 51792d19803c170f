"""Rules that may match a group, for its topics, last client or owner are not known: their strictest demands hold."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.ledger.deletion_plan import least_idle_times
from airflow_kafka_groups.ledger.floors import SiteFloors
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from tests.exhaustive.change.plan.by_policy import BASE, POLICY, plan_by, world
from tests.exhaustive.change.plan.notices import DAY, Story, waiting
from tests.fakes.groups import NOW, Ticking
from tests.unit.change.scene import layout_in
from tests.unit.judge.policy.files import policy_of

pytestmark = pytest.mark.safety


async def test_hidden_topics_leave_a_rule_by_topic_undecided(tmp_path: Path) -> None:
    admin = world("a")
    admin.sees_topics = False
    plan = await plan_by(policy_of(tmp_path, POLICY), admin, tmp_path, replace(BASE, allow_hidden_topics=True))
    (group,) = plan.kept
    assert (group.verdict, group.rule) == ("reported", "audit")
    assert "are not known" in group.reason


UNDECIDED = """\
    version: 1
    rules:
      - {name: asked, match: {groups: "a*", clients: "batch*"}, action: delete, idle: 1d, approval: always}
      - {name: rest, action: delete, idle: 1d}
    """


async def test_a_rule_that_may_match_demands_its_approval(tmp_path: Path) -> None:
    file = policy_of(tmp_path, UNDECIDED)
    plan = await plan_by(file, world("a1", "b1"), tmp_path)
    assert {group.group_id: group.rule for group in plan.groups} == {"a1": "rest", "b1": "rest"}
    assert plan.rules_to_approve == ["asked"]
    assert SiteFloors().approval(None, plan).rule == "always"
    assert (await plan_by(file, world("b1"), tmp_path / "b")).rules_to_approve == [], "it cannot match b1"


async def test_a_rule_by_topic_that_may_match_demands_its_approval_where_topics_are_hidden(tmp_path: Path) -> None:
    file = policy_of(tmp_path, UNDECIDED.replace('clients: "batch*"', 'topics: "audit*"'))
    assert (await plan_by(file, world("a1"), tmp_path)).rules_to_approve == []
    admin = world("a1")
    admin.sees_topics = False
    plan = await plan_by(file, admin, tmp_path / "hidden", replace(BASE, allow_hidden_topics=True))
    assert plan.rules_to_approve == ["asked"]


BY_CLIENT = """\
    version: 1
    rules:
      - {name: mine, match: {clients: "c*"}, action: delete, idle: 1d}
      - {name: others, match: {clients: "x*"}, action: report}
      - {name: rest, action: delete, idle: 1d}
    """


async def test_a_rule_by_last_client_decides_where_a_snapshot_saw_the_members(tmp_path: Path) -> None:
    admin, members_left = world("seen", "never"), NOW - timedelta(days=20)
    admin.groups["seen"].members = 2  # of the client id "c"
    await take_snapshot(admin, layout_in(tmp_path), now=Ticking(members_left))
    admin.groups["seen"].members = 0
    file, judged = policy_of(tmp_path, BY_CLIENT), {"first_seen_at": members_left - timedelta(days=1)}
    plan = await plan_by(file, admin, tmp_path, judged=judged)
    assert [(group.group_id, group.rule, group.owner) for group in plan.groups] == [("seen", "mine", "c")]
    (never,) = plan.kept
    assert (never.group_id, never.verdict, never.rule) == ("never", "reported", "others"), "it may match"
    assert "the last client that 'mine', 'others' asks for are not known" in never.reason

    judged["last_moved_at"] = members_left + timedelta(days=1)
    plan = await plan_by(file, admin, tmp_path, judged=judged)
    assert not plan.groups, "somebody moved the offsets after the members were seen"
    assert {(group.group_id, group.verdict) for group in plan.kept} == {("seen", "reported"), ("never", "reported")}


CAPPED = """\
    version: 1
    rules:
      - {name: few, match: {topics: "audit*"}, action: delete, idle: 8d, max_groups: 1}
      - {name: rest, action: delete, idle: 1d}
    """


async def test_a_rule_that_may_match_caps_and_demands_its_idle_time(tmp_path: Path) -> None:
    file, admin = policy_of(tmp_path, CAPPED), world("a1", "a2", "a3")
    assert len((await plan_by(file, admin, tmp_path)).groups) == 3, "their topics are known, and are others"
    admin.sees_topics = False
    plan = await plan_by(file, admin, tmp_path / "hidden", replace(BASE, allow_hidden_topics=True))
    assert {group.group_id: group.rule for group in plan.groups} == {"a3": "rest"}
    assert [(group.verdict, "rule 'few'" in group.reason) for group in plan.kept] == [("over_cap", True)] * 2
    assert "its cap allows 1 per plan" in plan.warnings[-1]
    assert least_idle_times(plan) == {"a3": 8 * 86_400.0}, "a restart of its idle time since counts by that"


async def test_a_group_over_one_cap_uses_up_no_other(tmp_path: Path) -> None:
    text = CAPPED.replace("idle: 1d}", "idle: 1d, max_groups: 2}").replace("topics: ", 'groups: ["a*", "b*"], topics: ')
    file, admin = policy_of(tmp_path, text), world("c1", "b1", "a1")
    admin.sees_topics = False
    plan = await plan_by(file, admin, tmp_path, replace(BASE, allow_hidden_topics=True))
    assert set(plan.group_ids) == {"b1", "c1"}, "the longest idle one that may match, and one that cannot"


BY_OWNER = """\
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


async def test_a_rule_by_owner_that_may_match_demands_its_approval_and_idle_time(tmp_path: Path) -> None:
    """The group may be that of the client ``payments``, and was deleted without the approval that this rule demands."""
    plan = await plan_by(policy_of(tmp_path, BY_OWNER), world("x1"), tmp_path)
    assert {group.group_id: group.rule for group in plan.groups} == {"x1": "rest"}
    assert plan.rules_to_approve == ["pay"]
    assert SiteFloors().approval(None, plan).rule == "always"
    assert least_idle_times(plan) == {"x1": 8 * 86_400.0}, "a restart of its idle time since counts by that"


async def test_a_group_with_another_owner_needs_neither(tmp_path: Path) -> None:
    plan = await plan_by(policy_of(tmp_path, BY_OWNER), world("search1"), tmp_path)
    assert (plan.group_ids, plan.rules_to_approve) == (["search1"], [])
    assert least_idle_times(plan) == {"search1": 1 * 86_400.0}


async def test_a_notice_of_a_rule_by_owner_that_may_match_holds_at_the_deletion_too(tmp_path: Path) -> None:
    story = Story(tmp_path, "x1", policy=BY_OWNER.replace("approval: always", "notice: 2d"))
    plan = await story.plan(NOW)
    assert waiting(plan) == ["x1"]
    story.notify(plan, NOW)
    assert [notice.notice_seconds for notice in story.sent] == [2 * 86_400.0]
    later = await story.plan(NOW + 3 * DAY)
    assert await story.delete(later, NOW + 3 * DAY) == {"x1": ("deleted", "safe")}
