"""The limits of a plan, the rules, and a file's own tests."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError, PolicyError
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.judge.policy.rules import Match, Rule, RuleAction
from airflow_kafka_groups.observe.patterns import DEFAULT_PROTECTED
from airflow_kafka_groups.storage.formats import plain, read_model
from tests.unit.judge.policy.files import policy_of


@pytest.mark.parametrize(
    "bad",
    [
        {"min_idle_seconds": 0},
        {"min_idle_seconds": float("nan")},
        {"min_idle_seconds": "7d"},
        {"min_idle_seconds": True},
        {"min_observations": 1},
        {"max_groups": 0},
        {"max_groups": 1.5},
        {"max_groups": True},
        {"max_share": 0},
        {"max_share": 1.01},
        {"max_share": 50},
        {"refuse_share": 0},
        {"refuse_share": 1.01},
        {"max_plan_age_seconds": -1},
        {"max_plan_age_seconds": 1e300},
        {"include": "a*"},
        {"exclude": ["re:["]},
        {"protected": [""]},
        {"max_gap_seconds": -1},
        {"max_gap_seconds": float("inf")},
        {"require_commit_log": "yes"},
    ],
)
def test_a_policy_that_makes_no_sense_names_the_field(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"^{next(iter(bad))}"):
        PlanPolicy(**bad)


def test_a_share_may_be_all_groups() -> None:
    policy = PlanPolicy(max_share=1, refuse_share=1)
    assert (policy.max_share, policy.refuse_share) == (1, 1)


@pytest.mark.parametrize("policy", [PlanPolicy(), PlanPolicy(max_gap_seconds=172_800, require_commit_log=True)])
def test_a_policy_reads_back_as_it_was_written_and_lacks_nothing(policy: PlanPolicy) -> None:
    written = plain(policy)
    assert read_model(PlanPolicy, written, exactly=True) == policy
    for name in written:
        with pytest.raises(TypeError, match=f"lacks {name}"):
            read_model(PlanPolicy, {key: written[key] for key in written if key != name}, exactly=True)


def test_an_exclude_does_not_lose_the_protected_patterns() -> None:
    policy = PlanPolicy(exclude=["mine-*"])  # type: ignore[arg-type]
    assert policy.exclude == ("mine-*",)
    assert policy.protected == DEFAULT_PROTECTED
    assert read_model(PlanPolicy, plain(policy), exactly=True) == policy


RULE = Rule(
    name="r",
    action=RuleAction.DELETE,
    match=Match(groups=("a*",), excepted=("ab",), types=("classic",), families=("uuid", "x-<number>")),
    min_idle_seconds=60.0,
    min_observations=3,
    notice_seconds=5.0,
    max_groups=7,
    max_share=0.5,
    approval=True,
    owner="team",
    max_growth_per_day=2.5,
)


def test_a_rule_reads_back_as_it_was_written() -> None:
    for rule in (
        RULE,
        replace(RULE, max_share=1.0),
        Rule(name="s", action=RuleAction.KEEP, min_idle_seconds=1.0, min_observations=2),
    ):
        assert read_model(Rule, json.loads(json.dumps(plain(rule))), exactly=True) == rule


@pytest.mark.parametrize("name", sorted(plain(RULE)))
def test_a_rule_that_lacks_something_is_refused(name: str) -> None:
    data = plain(RULE)
    del data[name]
    with pytest.raises((KeyError, TypeError)):
        read_model(Rule, data, exactly=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"min_idle_seconds": 0}, {"min_idle_seconds": -1.0}, {"min_observations": 1}, {"notice_seconds": -1.0},
        {"max_growth_per_day": -1}, {"max_growth_per_day": "50"},
        {"max_groups": -1}, {"max_share": 0.0}, {"max_share": 1.5}, {"more": 1}, {"action": "remove"},
        {"match": {"types": ["queue"]}}, {"match": {"families": ["uid"]}}, {"match": {"groups": ["re:("]}},
        {"match": {"what": ["x"]}},
    ],
)  # fmt: skip
def test_a_rule_that_cannot_be_is_refused(changes: dict[str, Any]) -> None:
    if "match" in changes:
        changes = {"match": {**plain(Match()), **changes["match"]}}
    with pytest.raises((ConfigurationError, ValueError, TypeError)):
        read_model(Rule, {**plain(RULE), **changes}, exactly=True)


POLICY = """\
    version: 1
    owners: {pay: {groups: "pay.*"}}
    rules:
      - {name: topics, match: {topics: "orders*"}, action: keep}
      - {name: new, match: {types: consumer}, action: report}
      - {name: pay, match: {owners: pay}, action: delete, owner: finance}
      - {name: web, match: {clients: "web*"}, action: keep-alive}
    tests:
"""


@pytest.mark.parametrize(
    "test",
    [
        "{group: pay.x, rule: pay, action: delete, owner: finance}",
        "{group: pay.x, topics: [t, orders-1], rule: topics}",
        "{group: pay.x, topics: orders, action: keep}",
        "{group: pay.x, type: consumer, action: report}",
        "{group: x, client: web-1, action: keep-alive}",
        "{group: other, client: c, rule: default, owner: c}",
    ],
)
def test_a_test_that_holds_lets_the_policy_pass(test: str, tmp_path: Path) -> None:
    assert len(policy_of(tmp_path, f"{POLICY}      - {test}\n").rules) == 5


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ("{group: pay.x, rule: topics}", r"rule fails for group 'pay.x': expected 'topics', got 'pay'"),
        ("{group: pay.x, action: keep}", r"action fails for group 'pay.x': expected 'keep', got 'delete'"),
        ("{group: x, client: c, owner: pay}", r"owner fails for group 'x': expected 'pay', got 'c'"),
        ("{group: x, client: c, rule: payments}", r"rule \(got 'payments'\) is no rule of this file"),
        ("{group: x}", "must be as follows: a test has a group, and a rule, an action or an owner"),
    ],
)  # fmt: skip
def test_a_test_that_fails_refuses_the_policy_with_its_line(test: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=rf"policy.yaml, line 9: tests\[0\]\.?{message}|line 9: tests\[0\] {message}"):
        policy_of(tmp_path, f"{POLICY}      - {test}\n")


def test_a_group_that_no_rule_can_delete_is_kept_in_a_test_too(tmp_path: Path) -> None:
    """A test that it is kept failed, and one that it is deleted passed."""
    policy = "version: 1\nprotect: 'flink-*'\nrules: [{name: all, action: delete}]\ntests:\n- {group: flink-a, "
    assert policy_of(tmp_path, f"{policy}action: keep, rule: all}}\n").rules
    message = r"line 5: tests\[0\].action fails for group 'flink-a': expected 'delete', got 'keep' \(protected by"
    with pytest.raises(PolicyError, match=message):
        policy_of(tmp_path, f"{policy}action: delete}}\n")
