"""The example of docs/examples is a policy that fits Kafka's defaults, and the demo runs it with days as seconds."""

from collections.abc import Callable
from pathlib import Path

import yaml

from airflow_kafka_groups.judge.policy.families import family_of
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile, load_policy
from airflow_kafka_groups.judge.policy.retention import against_retention
from airflow_kafka_groups.judge.policy.rules import RuleMatcher, facts_of
from tests.demo import workload
from tests.demo.policy import EXAMPLE, IDLE_SECONDS, NOTICE_SECONDS, write_policy


def action_of(policy: PolicyFile) -> Callable[[str], str]:
    matcher = RuleMatcher(policy.rules)
    return lambda name: matcher.rule_for(facts_of(name, policy.owners, topics=frozenset())).rule.action.value


def test_the_example_can_be_pasted() -> None:
    policy = load_policy(EXAMPLE)
    assert policy.warnings == ()
    assert against_retention(policy.rules, 7 * 1_440) == ([], []), "it fits Kafka's default retention"
    content = yaml.safe_load(EXAMPLE.read_text())
    assert (EXAMPLE.parent / content["$schema"]).is_file()
    assert {test["rule"] for test in content["tests"]} == {rule.name for rule in policy.rules}
    assert all(policy.owners.contact_of(owner) for owner in content["owners"])


def test_the_demo_shortens_nothing_but_the_days(tmp_path: Path) -> None:
    example, policy = load_policy(EXAMPLE), load_policy(write_policy(tmp_path / "policy.yaml"))
    deleting = [rule for rule in policy.rules if rule.deletes]
    assert {(rule.min_idle_seconds, rule.notice_seconds) for rule in deleting} == {(IDLE_SECONDS, NOTICE_SECONDS)}
    before, after = EXAMPLE.read_text().splitlines(), (tmp_path / "policy.yaml").read_text().splitlines()
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert {tuple(line.split(":")[0].strip() for line in pair) for pair in changed} == {
        ("idle", "idle"),
        ("notice", "notice"),
    }
    assert [rule.name for rule in example.rules] == [rule.name for rule in policy.rules]


def test_the_workload_is_what_the_policy_is_about() -> None:
    policy = load_policy(EXAMPLE)
    action = action_of(policy)
    stale = workload.stale_names()
    assert {action(name) for name in stale} == {"delete"}
    assert {action(name) for name in workload.sleeping_names()} == {"keep-alive"}
    owners = {found for name in stale if (found := policy.owners.owner_of(name)) is not None}
    assert len(owners) == workload.OWNERS
    assert len({family.name for name in stale if (family := family_of(name)) is not None}) == workload.FAMILIES
    assert all(policy.owners.owner_of(name) is not None for name in stale)
