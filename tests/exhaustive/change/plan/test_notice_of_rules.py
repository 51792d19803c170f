"""A notice that one rule demands, and groups of which is known that another rule decides."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.deletion.guards.exclusions import kept_by_records
from airflow_kafka_groups.change.deletion.guards.newer_policy import kept_by_newer_policy
from airflow_kafka_groups.kafka.models import GroupType
from airflow_kafka_groups.ledger.history import DeletionHistory
from airflow_kafka_groups.ledger.records import KeptAlive
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.storage.layout import Layout
from tests.exhaustive.change.plan.notices import DAY, Story, waiting
from tests.fakes.groups import NOW, Ticking
from tests.unit.judge.policy.files import policy_of

BY_TOPIC = """\
    version: 1
    defaults: {contact: all@example.com}
    rules:
      - {name: audits, match: {topics: "audit*"}, action: delete, idle: 1d, notice: 2d}
      - {name: rest, action: delete, idle: 1d}
    """
BY_TYPE = BY_TOPIC.replace('topics: "audit*"', "types: consumer")


@pytest.mark.parametrize("policy", [BY_TOPIC, BY_TYPE], ids=["topics", "types"])
async def test_a_group_whose_rule_demands_no_notice_is_deleted(policy: str, tmp_path: Path) -> None:
    """A plan marks it never, so its owner was never notified, and each deletion kept it: ``not_notified``."""
    story = Story(tmp_path, "pay1", policy=policy)
    plan = await story.plan(NOW)
    assert plan.group_ids == ["pay1"]
    story.notify(plan, NOW + timedelta(minutes=5))
    assert await story.delete(plan, NOW + timedelta(minutes=10)) == {"pay1": ("deleted", "safe")}


@pytest.mark.safety
async def test_a_message_names_the_period_that_holds_where_topics_may_be_hidden(tmp_path: Path) -> None:
    """The rule that may match demands two days; the message said that the group may be gone in 0 s."""
    story = Story(tmp_path, "pay1", policy=BY_TOPIC)
    story.admin.sees_topics = False
    plan = await story.plan(NOW, hidden=True)
    assert waiting(plan) == ["pay1"]
    story.notify(plan, NOW + timedelta(minutes=5))
    assert [(notice.groups, notice.notice_seconds) for notice in story.sent] == [(("pay1",), 2 * 86_400.0)]
    assert (await story.plan(NOW + 3 * DAY, hidden=True)).group_ids == ["pay1"], "it holds for so long"


async def test_a_notice_of_a_rule_by_last_client_is_given_where_the_deletion_demands_it(tmp_path: Path) -> None:
    """The plan knew that the last client was another one, the deletion did not, and kept the group each time."""
    story = Story(tmp_path, "pay1", policy=BY_TOPIC.replace('topics: "audit*"', 'clients: "batch*"'))
    judged = await story.had_members()
    plan = await story.plan(NOW, **judged)
    assert waiting(plan) == ["pay1"]
    story.notify(plan, NOW + timedelta(minutes=5))
    later = await story.plan(NOW + 3 * DAY, **judged)
    assert await story.delete(later, NOW + 3 * DAY + timedelta(minutes=5)) == {"pay1": ("deleted", "safe")}


@pytest.mark.safety
async def test_no_group_is_deleted_sooner_than_its_owner_was_told(tmp_path: Path) -> None:
    """The message said two weeks, and an edit made it a day: its groups were gone the next night."""
    long = "version: 1\ndefaults: {contact: a}\nrules: [{name: r, action: delete, idle: 1d, notice: 14d}]\n"
    story = Story(tmp_path, "pay1", policy=long)
    story.notify(await story.plan(NOW), NOW + timedelta(minutes=5))
    assert "in 14 days at the earliest" in story.sent[0].to_context()["text"]
    story.file = policy_of(tmp_path, long.replace("14d", "1d"))
    plan = await story.plan(NOW + 2 * DAY)
    assert waiting(plan) == ["pay1"], "its owner reads the message on day 3"
    assert "named 14 days, which are not over" in plan.kept[0].reason
    assert story.notify(plan, NOW + 2 * DAY + timedelta(minutes=5)).notified == {}
    assert waiting(await story.plan(NOW + 13 * DAY)) == ["pay1"]
    assert (await story.plan(NOW + 15 * DAY)).group_ids == ["pay1"]


async def test_once_the_time_is_over_of_which_the_owner_was_told_nobody_is_notified_again(tmp_path: Path) -> None:
    short = "version: 1\ndefaults: {contact: a}\nrules: [{name: r, action: delete, idle: 1d, notice: 3d}]\n"
    story = Story(tmp_path, "pay1", policy=short)
    story.notify(await story.plan(NOW), NOW)
    story.file = policy_of(tmp_path, short.replace("3d", "1d"))
    assert (await story.plan(NOW + 4 * DAY)).group_ids == ["pay1"]


@pytest.mark.safety
async def test_a_rule_that_demands_no_notice_any_more_keeps_what_its_owner_was_told(tmp_path: Path) -> None:
    """Nobody told the owner that the period of the message does not hold: it was gone ten days before its end."""
    long = """\
        version: 1
        defaults: {contact: a}
        rules:
          - {name: r, match: {groups: "pay*"}, action: delete, idle: 1d, notice: 14d}
          - {name: rest, action: delete, idle: 1d, notice: 2d}
        """
    story = Story(tmp_path, "pay1", policy=long)
    story.notify(await story.plan(NOW), NOW + timedelta(minutes=5))
    assert "in 14 days at the earliest" in story.sent[0].to_context()["text"]
    story.file = policy_of(tmp_path, long.replace("14d", "0d"))
    plan = await story.plan(NOW + 3 * DAY)
    assert plan.group_ids == [], "the owner was told of 14 days"


BY_TYPE_AND_CLIENT = """\
    version: 1
    defaults: {contact: all@example.com}
    rules:
      - {name: jobs, match: {types: TYPE, clients: "job-*"}, action: delete, idle: 1d, notice: 6d}
      - {name: rest, action: delete, idle: 1d, notice: 2d}
    """


@pytest.mark.safety
@pytest.mark.parametrize(("type_of_rule", "days"), [("consumer", 6), ("classic", 2)])
async def test_a_message_names_the_period_of_the_rules_for_the_group_s_type(
    type_of_rule: str, days: int, tmp_path: Path
) -> None:
    """A message knew every group as a classic one, whatever plan and deletion know it as."""
    story = Story(tmp_path, "pay1", policy=BY_TYPE_AND_CLIENT.replace("TYPE", type_of_rule))
    story.admin.groups["pay1"].type = GroupType.CONSUMER
    plan = await story.plan(NOW)
    assert waiting(plan) == ["pay1"]
    story.notify(plan, NOW + timedelta(minutes=5))
    assert [notice.notice_seconds for notice in story.sent] == [days * 86_400.0]
    assert waiting(await story.plan(NOW + (days - 1) * DAY)) == ["pay1"]
    assert (await story.plan(NOW + (days + 1) * DAY)).group_ids == ["pay1"]


@pytest.mark.parametrize("is_known", [True, False])
async def test_the_reason_names_the_rule_that_demands_the_notice(is_known: bool, tmp_path: Path) -> None:
    """It named the rule that decided, which demands none: nobody finds a notice there."""
    policy = BY_TYPE_AND_CLIENT.replace("types: TYPE, ", "").replace("idle: 1d, notice: 2d", "idle: 1d")
    story = Story(tmp_path, "pay1", policy=policy)
    story.admin.groups["pay1"].members = 2 if is_known else 0  # of the client id "c"
    await take_snapshot(story.admin, story.layout, now=Ticking(NOW - 20 * DAY))
    story.admin.groups["pay1"].members = 0
    judged: dict[str, Any] = {"first_seen_at": NOW - 21 * DAY}
    plan = await story.plan(NOW, **judged)
    (kept,) = plan.kept
    assert (kept.verdict, kept.rule) == ("notice", "rest")
    assert kept.reason == "its owner has not been notified; rule 'jobs', which may match it, demands it"


async def test_what_a_deletion_keeps_for_its_record_is_not_planned_each_day(tmp_path: Path) -> None:
    """The deletion asks for the idle time of each rule that may match, the plan asked for that of its own rule only.

    A group that was restored was planned and kept each day, in place of one that waits for a later plan.
    """
    policy = BY_TYPE_AND_CLIENT.replace("types: TYPE, ", "").replace(", notice: 2d", "").replace(", notice: 6d", "")
    story = Story(tmp_path, "pay1", policy=policy.replace("action: delete, idle: 1d", "action: delete, idle: 30d", 1))
    judged = {**await story.had_members(60), "idle_since": NOW - 50 * DAY}
    restored = {"pay1": KeptAlive(NOW - 5 * DAY, NOW - 5 * DAY, "a restore")}
    plan = await story.plan(NOW, restored, **judged)
    kept = kept_by_records(story.layout, plan, plan.plan_id, DeletionHistory([]), restored, NOW)
    assert set(plan.group_ids) - set(kept) == set(plan.group_ids)
    assert (await story.plan(NOW + 26 * DAY, restored, **judged)).group_ids == ["pay1"]


async def test_an_edit_that_demands_no_more_keeps_no_group_that_had_its_notice(tmp_path: Path) -> None:
    """The notice and the approval of a rule by last client were demanded and given; then a comment was written."""
    policy = BY_TYPE_AND_CLIENT.replace("types: TYPE, ", "").replace("notice: 6d", "notice: 6d, approval: always")
    policy = policy.replace("rules:", 'owners: {pay: {groups: "pay*"}}\n    rules:')
    story = Story(tmp_path, "pay1", policy=policy)
    judged = await story.had_members()
    story.notify(await story.plan(NOW, **judged), NOW + timedelta(minutes=5))
    plan = await story.plan(NOW + 7 * DAY, **judged)
    assert (plan.group_ids, plan.rules_to_approve) == (["pay1"], ["jobs"])
    commented = policy_of(tmp_path, f"{policy}    # nothing else\n")
    assert kept_by_newer_policy(plan, commented) == {}
    longer = policy_of(tmp_path, policy.replace("notice: 6d", "notice: 8d"))
    assert set(kept_by_newer_policy(plan, longer)) == {"pay1"}
    other = policy_of(tmp_path, policy.replace("all@", "others@"))
    assert set(kept_by_newer_policy(plan, other)) == {"pay1"}, "somebody else would be notified by now"


LONG = """\
    version: 1
    owners: {pay: {groups: "pay*", contact: pay@example.com}}
    defaults: {contact: all@example.com}
    rules: [{name: r, action: delete, idle: 1d, notice: 14d}]
    """
NO_NOTICE = LONG.replace("14d", "0d")


@pytest.mark.safety
@pytest.mark.parametrize(
    "edit",
    [NO_NOTICE.replace("pay@", "payments@"), NO_NOTICE.replace("pay:", "payments:"), NO_NOTICE.replace('"pay*"', "p")],
    ids=["another contact", "a renamed owner", "no owner"],
)
async def test_what_an_owner_was_told_holds_though_somebody_else_would_be_told_by_now(
    edit: str, tmp_path: Path
) -> None:
    """The next task forgot that somebody was told of 14 days, and the plan after it had the group."""
    story = Story(tmp_path, "pay1", policy=LONG)
    story.notify(await story.plan(NOW), NOW + timedelta(minutes=5))
    assert "in 14 days at the earliest" in story.sent[0].to_context()["text"]
    story.file = policy_of(tmp_path, edit)
    for day in range(1, 14):
        plan = await story.plan(NOW + day * DAY)
        assert waiting(plan) == ["pay1"], f"day {day}"
        story.notify(plan, NOW + day * DAY + timedelta(minutes=5))
    assert len(story.sent) == 1, "nobody is told of a notice that no rule demands"
    assert (await story.plan(NOW + 15 * DAY)).group_ids == ["pay1"]


@pytest.mark.safety
async def test_what_an_owner_was_told_holds_where_the_new_one_could_not_be_told(tmp_path: Path) -> None:
    story = Story(tmp_path, "pay1", policy=LONG)
    story.notify(await story.plan(NOW), NOW + timedelta(minutes=5))
    story.file = policy_of(tmp_path, LONG.replace("pay:", "payments:"))
    failed = await story.plan(NOW + DAY)
    assert story.notify(failed, NOW + DAY + timedelta(minutes=5), fails=("payments",)).failed
    story.file = policy_of(tmp_path, NO_NOTICE.replace("pay:", "payments:"))
    assert waiting(await story.plan(NOW + 2 * DAY)) == ["pay1"]
    story.file = policy_of(tmp_path, LONG.replace("pay:", "payments:"))
    assert story.notify(failed, NOW + DAY + timedelta(hours=2)).notified == {"payments": 1}, "the repeat tells them"
    assert waiting(await story.plan(NOW + 14 * DAY + timedelta(hours=12))) == ["pay1"], "the period starts again"


@pytest.mark.safety
async def test_an_owner_without_a_contact_by_now_was_not_notified(tmp_path: Path) -> None:
    story = Story(tmp_path, "pay1", policy=LONG)
    story.notify(await story.plan(NOW), NOW + timedelta(minutes=5))
    nowhere = replace(story.file, owners=replace(story.file.owners, contacts={}, default_contact=None))
    story.file = nowhere
    for day in (15, 16, 31):
        plan = await story.plan(NOW + day * DAY)
        assert waiting(plan) == ["pay1"]
        assert story.notify(plan, NOW + day * DAY + timedelta(minutes=5)).without_contact == 1


@pytest.mark.safety
async def test_a_longer_idle_time_is_no_sign_of_life_that_ends_what_an_owner_was_told(tmp_path: Path) -> None:
    """The job called the group settling until it was idle for as long as the rule demands by now: the mark was gone."""
    story = Story(tmp_path, "pay1", policy=LONG)
    story.notify(await story.plan(NOW), NOW + timedelta(minutes=5))
    story.file = policy_of(tmp_path, NO_NOTICE.replace("idle: 1d", "idle: 11d"))
    settling = await story.plan(NOW + DAY, verdict="settling", reason="idle for 10d; 11d are required")
    story.notify(settling, NOW + DAY + timedelta(minutes=5))
    plan = await story.plan(NOW + 3 * DAY, idle_seconds=12 * 86_400.0)
    assert waiting(plan) == ["pay1"], "the owner was told of 14 days"
    story.notify(plan, NOW + 3 * DAY + timedelta(minutes=5))
    assert (await story.plan(NOW + 15 * DAY, idle_seconds=24 * 86_400.0)).group_ids == ["pay1"]
    assert len(story.sent) == 1


@pytest.mark.safety
async def test_a_group_that_is_settling_since_it_lived_is_notified_again(tmp_path: Path) -> None:
    story = Story(tmp_path, "pay1", policy=LONG)
    story.notify(await story.plan(NOW), NOW + timedelta(minutes=5))
    judged: dict[str, Any] = {"idle_since": NOW + 2 * DAY}
    settling = await story.plan(NOW + 3 * DAY, verdict="settling", reason="not long enough", **judged)
    story.notify(settling, NOW + 3 * DAY + timedelta(minutes=5))
    plan = await story.plan(NOW + 5 * DAY, **judged)
    assert waiting(plan) == ["pay1"]
    assert story.notify(plan, NOW + 5 * DAY + timedelta(minutes=5)).notified == {"pay": 1}
    assert waiting(await story.plan(NOW + 15 * DAY, **judged)) == ["pay1"], "the period starts again"
    assert (await story.plan(NOW + 20 * DAY, **judged)).group_ids == ["pay1"]


async def test_a_second_folder_of_the_cluster_that_notifies_nobody_makes_no_owner_be_notified_again(
    tmp_path: Path,
) -> None:
    """Its policy has other contacts: each of its runs withdrew the notice, and the owner had a mail every day."""
    story = Story(tmp_path, "pay1", policy=LONG.replace("14d", "3d"))
    other = Story(tmp_path, policy=NO_NOTICE.replace("pay@", "nobody@"))
    other.admin, other.layout = story.admin, Layout(story.layout.base, "second")
    for day in range(3):
        at = NOW + day * DAY
        story.notify(await story.plan(at), at + timedelta(minutes=5))
        plan = await other.plan(at + timedelta(hours=1))
        assert waiting(plan) == ["pay1"], "the owner was told of three days, by whomever"
        other.notify(plan, at + timedelta(hours=1, minutes=5))
    assert (len(story.sent), other.sent) == (1, [])
    assert (await story.plan(NOW + 4 * DAY)).group_ids == ["pay1"]
