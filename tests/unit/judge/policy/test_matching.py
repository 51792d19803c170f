"""Which rule decides about a group, and which rules before it may."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.judge.policy.owners import NO_OWNERS, OwnerRules
from airflow_kafka_groups.judge.policy.rules import (
    Match,
    Rule,
    RuleAction,
    RuleFacts,
    RuleMatcher,
    RulesBefore,
    demanding_approval,
    facts_of,
)
from airflow_kafka_groups.observe.patterns import GroupFilter, with_a_name

DELETE, KEEP, REPORT = RuleAction.DELETE, RuleAction.KEEP, RuleAction.REPORT
LAST = Rule(name="default", action=KEEP, min_idle_seconds=1.0, min_observations=2)


def rule(name: str, action: RuleAction = DELETE, idle: float = 7.0, **values: Any) -> Rule:
    own = {key: values.pop(key) for key in ("min_observations", "notice_seconds", "approval") if key in values}
    match = Match(**{key: (value,) if isinstance(value, str) else value for key, value in values.items()})
    return Rule(name=name, action=action, match=match, min_idle_seconds=idle, **{"min_observations": 2, **own})


def group(group_id: str = "g", group_type: str = "classic", **facts: Any) -> RuleFacts:
    return RuleFacts(group_id, group_type, **facts)


@pytest.mark.parametrize(
    ("conditions", "facts", "matches"),
    [
        ({"groups": "a*"}, group("ab"), True),
        ({"groups": "a*"}, group("b"), False),
        ({"groups": ("x", "a*")}, group("ab"), True),
        ({"groups": "re:a."}, group("abc"), False),
        ({"groups": "a*", "excepted": "*b"}, group("ab"), False),
        ({"excepted": "*b"}, group("ab"), False),
        ({"excepted": "*b"}, group("ac"), True),
        ({"types": "classic"}, group(), True),
        ({"types": "consumer"}, group(), False),
        ({"owners": "team"}, group(owner="team"), True),
        ({"owners": "team"}, group(owner=None), False),
        ({"families": "uuid"}, group(shape="uuid"), True),
        ({"families": "app-<uuid>"}, group(family="app-<uuid>", shape="uuid"), True),
        ({"families": "app-<uuid>"}, group(family="web-<uuid>", shape="uuid"), False),
        ({"topics": "orders*"}, group(topics=frozenset({"x", "orders-eu"})), True),
        ({"topics": "orders*"}, group(topics=frozenset()), False),
        ({"clients": "c*"}, group(client="c1"), True),
        ({"clients": "c*"}, group(client="d"), False),
        ({"groups": "a*", "types": "classic", "owners": "team"}, group("a", owner="other"), False),
    ],
)
def test_a_rule_matches_where_all_of_its_conditions_hold(
    conditions: dict[str, Any], facts: RuleFacts, matches: bool
) -> None:
    ruling = RuleMatcher([rule("r", **conditions), LAST]).rule_for(facts)
    assert (ruling.rule.name, ruling.undecided) == ("r" if matches else "default", ())


def test_rules_that_keep_match_generously_and_rules_that_delete_exactly() -> None:
    """As protecting patterns do: the group spelled like the pattern, and the same letters composed otherwise."""
    for action, expected in ((KEEP, "r"), (REPORT, "r"), (DELETE, "default")):
        matcher = RuleMatcher([rule("r", action, groups=("job[1]", "caf\u00e9")), LAST])
        assert matcher.rule_for(group("job[1]")).rule.name == expected
        assert matcher.rule_for(group("cafe\u0301")).rule.name == expected
    excepted = RuleMatcher([rule("r", groups="job*", excepted="job[1]"), LAST])
    assert excepted.rule_for(group("job[1]")).rule.name == "default", "an exception of a rule that deletes keeps"


@pytest.mark.safety
@pytest.mark.parametrize("client", ["job[1]", "cafe\u0301"])
def test_the_last_client_of_a_rule_is_matched_as_generously_as_its_ids(client: str) -> None:
    """A rule that keeps what a client used would otherwise leave the group to the next rule, which deletes it."""
    for action, expected in ((KEEP, "r"), (REPORT, "r"), (DELETE, "default")):
        matcher = RuleMatcher([rule("r", action, clients=("job[1]", "caf\u00e9")), LAST])
        assert matcher.rule_for(group(client=client)).rule.name == expected


@pytest.mark.safety
@pytest.mark.parametrize("unknown", [{"topics": "t"}, {"clients": "c"}])
def test_a_rule_that_may_match_keeps_the_group_from_being_deleted_by_a_laxer_one(unknown: dict[str, Any]) -> None:
    keeping = RuleMatcher([rule("keep", KEEP, **unknown), rule("all", DELETE), LAST])
    ruling = keeping.rule_for(group())
    assert (ruling.rule.name, ruling.rule.action, ruling.undecided) == ("keep", KEEP, ("keep",))
    slow = rule("slow", DELETE, 30.0, min_observations=5, notice_seconds=9.0, approval=True, **unknown)
    strict = RuleMatcher([slow, rule("all", DELETE), LAST]).rule_for(group()).rule
    assert (strict.name, strict.min_idle_seconds, strict.min_observations) == ("all", 30.0, 5)
    assert (strict.notice_seconds, strict.approval) == (9.0, True)


def test_a_rule_that_may_match_never_releases_a_group() -> None:
    matcher = RuleMatcher([rule("maybe", DELETE, 1.0, clients="c"), rule("kept", KEEP, groups="g"), LAST])
    assert matcher.rule_for(group()).rule.action is KEEP
    matcher = RuleMatcher([rule("maybe", DELETE, 1.0, clients="c"), rule("slow", DELETE, 30.0), LAST])
    assert matcher.rule_for(group()).rule.min_idle_seconds == 30.0


def test_a_rule_of_which_another_condition_fails_cannot_match() -> None:
    matcher = RuleMatcher([rule("keep", KEEP, types="consumer", clients="c"), rule("all", DELETE), LAST])
    assert matcher.rule_for(group()) == (rule("all", DELETE), ())


def test_a_group_of_unknown_type_may_be_of_either() -> None:
    """Brokers before ListGroups v5 report no type."""
    matcher = RuleMatcher([rule("classic", KEEP, types="classic"), rule("all", DELETE), LAST])
    assert matcher.rule_for(group(group_type="unknown")).rule.action is KEEP


def test_the_last_rule_has_to_match_everything() -> None:
    with pytest.raises(ValueError, match="last rule"):
        RuleMatcher([rule("r", groups="a*")])
    with pytest.raises(ValueError, match="last rule"):
        RuleMatcher([])


globs = st.text("ab*?", min_size=1, max_size=4)
ids = st.lists(st.text("ab", max_size=4), max_size=8, unique=True)


@given(st.lists(st.tuples(st.sampled_from([DELETE, KEEP]), globs, st.none() | globs), max_size=5), ids)
def test_the_first_rule_that_matches_decides_for_any_rules(
    given_rules: list[tuple[RuleAction, str, str | None]], group_ids: list[str]
) -> None:
    rules = [
        rule(f"r{number}", action, groups=glob, excepted=() if excepted is None else excepted)
        for number, (action, glob, excepted) in enumerate(given_rules)
    ]
    rulings = RuleMatcher([*rules, LAST]).rule_all([facts_of(name, NO_OWNERS) for name in group_ids])
    for name, ruling in zip(group_ids, rulings, strict=True):
        expected = next((r.name for r in rules if _matches(r, name)), "default")
        assert ruling.rule.name == expected


def _matches(one: Rule, group_id: str) -> bool:
    match = one.match
    if one.deletes:
        return GroupFilter(with_a_name(match.groups), match.excepted).selects(group_id)
    wanted = GroupFilter(protected=match.groups).protects(group_id)
    return wanted and not (match.excepted and GroupFilter(include=with_a_name(match.excepted)).selects(group_id))


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
    group = RuleFacts(group_id, kind, ruled.owner or facts.owner, rule=ruled.name)
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
        [rule.name for rule in before.of(RuleFacts(group_id, "classic", rule="rest"))] for group_id in ("orders", UUID)
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
    demanded = [rule.name for rule in before.of(RuleFacts("orders", kind, owner, rule="rest"))]
    assert demanded == (["rest", "jobs"] if may else ["rest"])
