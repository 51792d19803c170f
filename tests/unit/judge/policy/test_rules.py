from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.judge.policy.rules import Match, Rule, RuleAction

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
        assert Rule.from_json(json.loads(json.dumps(rule.to_json()))) == rule


@pytest.mark.parametrize("name", sorted(RULE.to_json()))
def test_a_rule_that_lacks_something_is_refused(name: str) -> None:
    data = RULE.to_json()
    del data[name]
    with pytest.raises((KeyError, TypeError)):
        Rule.from_json(data)


@pytest.mark.parametrize(
    "changes",
    [
        {"min_idle_seconds": 0}, {"min_idle_seconds": -1.0}, {"min_observations": 1}, {"notice_seconds": -1.0},
        {"max_growth_per_day": -1}, {"max_growth_per_day": "50"},
        {"max_groups": -1}, {"max_share": 0.0}, {"max_share": 1.5}, {"more": 1}, {"action": "remove"},
        {"match": {"types": ["share"]}}, {"match": {"families": ["uid"]}}, {"match": {"groups": ["re:("]}},
        {"match": {"what": ["x"]}},
    ],
)  # fmt: skip
def test_a_rule_that_cannot_be_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises((ConfigurationError, ValueError, TypeError)):
        Rule.from_json({**RULE.to_json(), **changes})
