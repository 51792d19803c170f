"""The demo's own judgement can fail: a cluster on which something wrong was deleted is not called well."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_groups.judge.policy.notice import Notice
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.judge.policy.rules import Rule, RuleAction
from tests.demo.mailbox import Mail
from tests.demo.outcome import policy_wrongs, pruned, summarise, summarise_policy, unnotified, wrongs
from tests.fakes.groups import NOW
from tests.unit.change.plan.plans import group, plan

TRUTH: Any = SimpleNamespace(
    live=frozenset({"l1"}),
    moving=frozenset({"m1"}),
    stale=frozenset({"s1", "s2"}),
    sleeping=frozenset({"z1"}),
    protected=frozenset({"p1"}),
    share=frozenset({"x1"}),
    families=1,
    owners=2,
    prunable=3,
)
KEPT = frozenset({"l1", "m1", "z1", "p1", "x1"})
COUNTS = {"found": 6, "live": 1, "moving": 1, "stale": 3, "protected": 0, "excluded": 1, "untouchable": 1, "planned": 2}


def audit(*deleted: str) -> dict[str, Any]:
    return {"outcomes": [{"group_id": group, "outcome": "deleted"} for group in deleted]}


def test_all_is_well_when_just_the_stale_groups_are_gone() -> None:
    summary = summarise({"counts": COUNTS}, audit("s1", "s2"), TRUTH, KEPT)
    assert wrongs(summary, TRUTH) == []
    assert (summary["deleted"], summary["verified"], summary["protected"]) == (2, 2, 1)


@pytest.mark.parametrize(
    ("gone", "kind"), [("l1", "live"), ("m1", "moving"), ("z1", "sleeping"), ("p1", "protected"), ("x1", "share")]
)
def test_a_group_that_had_to_stay_and_is_gone_is_wrong(gone: str, kind: str) -> None:
    summary = summarise({"counts": COUNTS}, audit("s1", "s2"), TRUTH, KEPT - {gone})
    assert wrongs(summary, TRUTH) == [f"1 {kind} group(s) are gone"]


def test_a_stale_group_that_is_still_there_is_wrong() -> None:
    summary = summarise({"counts": COUNTS}, audit("s1", "s2"), TRUTH, KEPT | {"s2"})
    assert len(wrongs(summary, TRUTH)) == 2


def test_a_deletion_that_is_only_claimed_is_wrong() -> None:
    summary = summarise({"counts": COUNTS}, audit("s1"), TRUTH, KEPT)
    assert "1 deleted" in wrongs(summary, TRUTH)[0]


def rule(name: str, notice: float) -> Rule:
    return Rule(name=name, action=RuleAction.DELETE, min_idle_seconds=8, min_observations=2, notice_seconds=notice)


PLAN = plan(
    policy=PlanPolicy(rules=(rule("short", 4), rule("long", 60)), contacts={"a": "a@x", "b": "b@x", "": "all@x"}),
    groups=(group("s1", owner="a", rule="short"), group("s2", rule="short")),
    families=({"name": "s<number>", "groups": 2, "planned": 2}, {"name": "m<number>", "groups": 9, "planned": 0}),
)
INTENTS = {"s1": NOW, "s2": NOW}


def mark(seconds_before: float = 5) -> Notice:
    at = NOW - timedelta(seconds=seconds_before)
    return Notice(fingerprint="f", marked_at=at, notified_at=at, told_seconds=4.0)


def mail(to: str, *groups: str, seconds_before: float = 6) -> Mail:
    at = NOW - timedelta(seconds=seconds_before)
    return Mail(received_at=at, recipients=(to,), subject="", html="", groups=frozenset(groups))


MARKS = {"s1": mark(), "s2": mark()}
MAILS = [mail("a@x", "s1"), mail("all@x", "s2")]


def test_a_policy_is_counted_from_the_plan_the_journal_and_the_mails() -> None:
    found = summarise_policy(PLAN, {"s1", "s2"}, INTENTS, MARKS, MAILS)
    assert found == {"families": 1, "owners": 1, "marked": 2, "mails": 2, "notified": 2, "unnotified_deleted": 0}


@pytest.mark.parametrize(
    ("marks", "mails", "intents"),
    [
        pytest.param({"s2": mark()}, MAILS, INTENTS, id="no mark"),
        pytest.param({**MARKS, "s1": mark(3.9)}, MAILS, INTENTS, id="marked too late"),
        pytest.param({**MARKS, "s1": Notice(fingerprint="f", marked_at=NOW)}, MAILS, INTENTS, id="not notified"),
        pytest.param(MARKS, MAILS[1:], INTENTS, id="no mail"),
        pytest.param(MARKS, [mail("all@x", "s1"), MAILS[1]], INTENTS, id="mail to somebody else"),
        pytest.param(MARKS, [mail("a@x", "s2"), MAILS[1]], INTENTS, id="mail about another group"),
        pytest.param(MARKS, [mail("a@x", "s1", seconds_before=3.9), MAILS[1]], INTENTS, id="mail too late"),
        pytest.param(MARKS, MAILS, {"s2": NOW}, id="deleted at an unknown time"),
    ],
)
def test_one_that_was_deleted_without_a_timely_notice_is_found(marks: Any, mails: Any, intents: Any) -> None:
    assert unnotified(PLAN, {"s1", "s2"}, intents, marks, mails) == {"s1"}


def test_a_deleted_group_that_was_not_planned_is_found_and_the_rules_own_period_counts() -> None:
    assert unnotified(PLAN, {"s1", "other"}, INTENTS, MARKS, MAILS) == {"other"}
    longer = replace(PLAN, groups=(group("s1", owner="a", rule="long"),))
    assert unnotified(longer, {"s1"}, INTENTS, MARKS, MAILS) == {"s1"}


SUMMARY = {"families": 1, "owners": 2, "marked": 2, "mails": 2, "notified": 2}
SUMMARY |= {"unnotified_deleted": 0, "kept_alive": 1, "pruned_partitions": 3}


@pytest.mark.parametrize("name", SUMMARY)
def test_each_count_of_the_policy_can_be_wrong(name: str) -> None:
    assert policy_wrongs(SUMMARY, TRUTH) == []
    assert policy_wrongs({**SUMMARY, name: SUMMARY[name] + 1}, TRUTH)[0].startswith(f"{name} is ")


def test_only_offsets_of_the_topic_that_was_left_count_as_pruned() -> None:
    before = {("old", 0): 5, ("old", 1): 5, ("new", 0): 7}
    assert pruned(before, {("new", 0): 9}, "old") == 2
    assert pruned(before, before, "old") == 0
    assert pruned(before, {("old", 0): 5, ("old", 1): 5}, "old") == 0
    assert pruned(before, {}, "old") == 0
