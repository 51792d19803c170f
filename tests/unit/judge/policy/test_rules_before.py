"""What a deletion demands, which knows less of a group than the plan did: no less, and no more than may hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.judge.policy.matching import Decided, RuleMatcher, RulesBefore, demanding_approval, facts_of
from airflow_kafka_groups.judge.policy.owners import NO_OWNERS, OwnerRules
from airflow_kafka_groups.judge.policy.rules import Match, Rule, RuleAction

DAY = 86_400.0
UUID = "job-3f2504e0-4f89-41d3-9a0c-0305e82c3301"


def some(*values: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.sampled_from([(), (), *values])


MATCHES = st.builds(
    Match,
    groups=some(("pay*",), ("re:.*a",)),
    excepted=some(("pay.a",), ("*a",)),
    owners=some(("pay",), ("own",), ("c1",)),
    types=some(("classic",), ("consumer",)),
    families=some(("uuid",)),
    topics=some(("t*",)),
    clients=some(("c*",)),
)


@st.composite
def policies(draw: st.DrawFn) -> list[Rule]:
    count = draw(st.integers(1, 4))
    return [
        Rule(
            name=f"r{number}",
            action=draw(st.sampled_from([RuleAction.DELETE, RuleAction.DELETE, RuleAction.KEEP])),
            match=draw(MATCHES) if number < count else Match(),
            min_idle_seconds=draw(st.sampled_from([DAY, 5 * DAY])),
            min_observations=2,
            notice_seconds=draw(st.sampled_from([0.0, DAY, 5 * DAY])),
            approval=draw(st.booleans()),
            owner=draw(st.sampled_from([None, None, "own", "pay"])),
        )
        for number in range(count + 1)
    ]


OWNERS = st.builds(
    OwnerRules,
    mapping=st.sampled_from([(), (("pay*", "pay"),), (("*", "own"),)]),
    naming=st.sampled_from([None, "{owner}.*"]),
)


@pytest.mark.safety
@given(
    rules=policies(),
    owners=OWNERS,
    group_id=st.sampled_from(["pay.a", "pay.b", "web.a", "x", UUID]),
    kind=st.sampled_from(["classic", "consumer", "unknown"]),
    topics=st.sampled_from([None, frozenset[str](), frozenset({"t"}), frozenset({"z"})]),
    client=st.sampled_from([None, "c1", "d"]),
    hidden=st.booleans(),
)
def test_a_deletion_demands_no_less_than_the_plan_did(
    rules: list[Rule],
    owners: OwnerRules,
    group_id: str,
    kind: str,
    topics: frozenset[str] | None,
    client: str | None,
    hidden: bool,
) -> None:
    by_client = any(rule.match.clients for rule in rules)
    seen = topics if hidden or topics is not None else frozenset[str]()
    facts = facts_of(group_id, owners, group_type=kind, topics=seen, client=client if by_client else None)
    ruled = RuleMatcher(rules).rule_for(facts).rule
    if not ruled.deletes:
        return
    group = Decided(group_id, kind, ruled.owner or facts.owner, ruled.name)
    before = RulesBefore(rules, topics_hidden=hidden)
    assert before.most(group, lambda rule: rule.min_idle_seconds) >= ruled.min_idle_seconds
    assert before.most(group, lambda rule: rule.notice_seconds) >= ruled.notice_seconds
    assert demanding_approval(rules, [group], topics_hidden=hidden) or not ruled.approval
    if not by_client and not hidden and kind != "unknown":
        assert [rule.name for rule in before.of(group)] == [ruled.name]


def test_a_rule_for_a_family_demands_nothing_of_a_group_that_is_not_of_it() -> None:
    """docs/howto/policy.md: the notice of a rule with ``clients`` holds for all that its other conditions match."""
    match = Match(families=("uuid",), clients=("job-*",))
    jobs = Rule(name="jobs", action=RuleAction.DELETE, match=match, min_idle_seconds=DAY, min_observations=2,
                notice_seconds=5 * DAY, approval=True)  # fmt: skip
    rest = Rule(name="rest", action=RuleAction.DELETE, min_idle_seconds=DAY, min_observations=2)
    before = RulesBefore([jobs, rest], topics_hidden=False)
    demanded = [
        [rule.name for rule in before.of(Decided(group_id, "classic", None, "rest"))] for group_id in ("orders", UUID)
    ]
    assert demanded == [["rest"], ["rest", "jobs"]]
    assert RuleMatcher([jobs, rest]).rule_for(facts_of("orders", NO_OWNERS)).rule == rest


@pytest.mark.parametrize(
    ("match", "kind", "owner", "may"),
    [
        (Match(types=("consumer",), clients=("job-*",)), "classic", None, False),
        (Match(types=("consumer",), clients=("job-*",)), "consumer", None, True),
        (Match(types=("consumer",), clients=("job-*",)), "unknown", None, True),
        (Match(types=("consumer",)), "unknown", None, True),
        (Match(types=("consumer",)), "consumer", None, False),
        (Match(owners=("pay",), clients=("job-*",)), "classic", "web", False),
        (Match(owners=("pay",), clients=("job-*",)), "classic", "pay", True),
        (Match(owners=("pay",), clients=("job-*",)), "classic", None, True),
    ],
)
def test_a_rule_demands_nothing_of_a_group_of_another_type_or_owner(
    match: Match, kind: str, owner: str | None, may: bool
) -> None:
    """One whose conditions are all known would have decided, if they held."""
    rules = [
        Rule(name=name, action=RuleAction.DELETE, match=of, min_idle_seconds=DAY, min_observations=2)
        for name, of in (("jobs", match), ("rest", Match()))
    ]
    before = RulesBefore(rules, topics_hidden=False)
    demanded = [rule.name for rule in before.of(Decided("orders", kind, owner, "rest"))]
    assert demanded == (["rest", "jobs"] if may else ["rest"])
