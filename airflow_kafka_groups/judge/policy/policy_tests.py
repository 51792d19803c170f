"""The tests in a policy file: groups, and the rule, action or owner expected of each. One that fails is an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_kafka_groups.judge.policy.matching import RuleMatcher, facts_of
from airflow_kafka_groups.judge.policy.owners import OwnerRules
from airflow_kafka_groups.judge.policy.rules import Rule, RuleAction
from airflow_kafka_groups.judge.policy.yaml_lines import Path, Problems
from airflow_kafka_groups.observe.patterns import ALWAYS_PROTECTED, GroupFilter


def run_tests(
    tests: Sequence[Mapping[str, Any]],
    rules: Sequence[Rule],
    owners: OwnerRules,
    problems: Problems,
    protected: Sequence[str],
) -> None:
    """Add a problem for each test that fails.

    :param tests: the section of the file, checked by the schema.
    :param protected: patterns of groups that no rule may delete: they are kept, as a plan keeps them.
    """
    if not tests:
        return
    matcher = RuleMatcher(rules)
    names = [rule.name for rule in rules]
    safe = GroupFilter(protected=(*ALWAYS_PROTECTED, *protected))
    for place, test in enumerate(tests):
        path: Path = ("tests", place)
        topics = test.get("topics", ())
        facts = facts_of(
            test["group"],
            owners,
            group_type=test.get("type", "classic"),
            topics=frozenset([topics] if isinstance(topics, str) else topics),
            client=test.get("client"),
        )
        ruling = matcher.rule_for(facts)
        is_safe = ruling.rule.deletes and safe.protects(test["group"])
        found = {
            "rule": ruling.rule.name,
            "action": (RuleAction.KEEP if is_safe else ruling.rule.action).value,
            "owner": ruling.rule.owner or facts.owner,
        }
        if "rule" in test and test["rule"] not in names:
            problems.add((*path, "rule"), f"(got {test['rule']!r}) is no rule of this file")
            continue
        for name, value in found.items():
            if name in test and test[name] != value:
                by = "" if name == "rule" else f" (by rule {ruling.rule.name!r})"
                if is_safe and name == "action":
                    by = f" ({safe.why_not(test['group'])})"
                expected = f"expected {test[name]!r}, got {value!r}{by}"
                problems.add((*path, name), f"fails for group {test['group']!r}: {expected}")
