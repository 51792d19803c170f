from __future__ import annotations

from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import PolicyError
from tests.unit.judge.policy.files import policy_of

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
