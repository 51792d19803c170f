from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.exceptions import PolicyError
from airflow_kafka_groups.judge.policy.lint import CoveringMatch
from airflow_kafka_groups.judge.policy.rules import Match
from airflow_kafka_groups.observe.patterns import GroupFilter
from tests.unit.judge.policy.files import policy_of


def rules(*lines: str) -> str:
    return "version: 1\nrules:\n" + "".join(f"- {{{line}}}\n" for line in lines)


SHADOWED = [
    ("name: a, action: keep, match: {groups: 'pay-*'}", "name: b, action: delete, match: {groups: 'pay-?a*'}"),
    (
        "name: a, action: delete, match: {types: classic}",
        "name: b, action: keep, match: {groups: 'j[1]', types: classic}",
    ),
    ("name: a, action: keep, match: {groups: 'job[1]'}", "name: b, action: delete, match: {groups: 'job[1]'}"),
    ("name: a, action: keep", "name: b, action: delete, match: {groups: x}"),
    ("name: a, action: delete, match: {groups: 'pay*'}", "name: b, action: keep, match: {groups: 'pay.eu*'}"),
    ("name: a, action: delete, match: {groups: ['x*', 'y*']}", "name: b, action: delete, match: {groups: 'y*'}"),
    ("name: a, action: keep, match: {families: [uuid, hash]}", "name: b, action: delete, match: {families: uuid}"),
    ("name: a, action: keep, match: {owners: t}", "name: b, action: delete, match: {owners: t, groups: 'x*'}"),
]
DISTINCT = [
    ("name: a, action: keep, match: {groups: 'pay.eu*'}", "name: b, action: delete, match: {groups: 'pay*'}"),
    ("name: a, action: keep, match: {groups: 'pay?'}", "name: b, action: delete, match: {groups: 'pay*'}"),
    ("name: a, action: keep, match: {groups: 'p*', except: 'px'}", "name: b, action: delete, match: {groups: 'px'}"),
    ("name: a, action: keep, match: {types: classic}", "name: b, action: delete, match: {types: [classic, consumer]}"),
    ("name: a, action: keep, match: {groups: 'x*', types: consumer}", "name: b, action: delete, match: {groups: 'x*'}"),
    ("name: a, action: delete, match: {groups: 'job[1]'}", "name: b, action: keep, match: {groups: 'job[1]'}"),
    ("name: a, action: delete, match: {groups: 'caf\u00e9*'}", "name: b, action: keep, match: {groups: 'caf\u00e9*'}"),
    ("name: a, action: keep, match: {groups: '*]'}", "name: b, action: delete, match: {groups: '[ab]'}"),
]  # fmt: skip


@pytest.mark.parametrize("lines", SHADOWED)
def test_a_rule_that_can_never_decide_is_an_error(lines: tuple[str, str], tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"line 4: rules\[1\] can never decide: rule 'a' before it"):
        policy_of(tmp_path, rules(*lines))


@pytest.mark.parametrize("lines", DISTINCT)
def test_rules_that_overlap_only_are_fine(lines: tuple[str, str], tmp_path: Path) -> None:
    assert len(policy_of(tmp_path, rules(*lines)).rules) == 3


def test_a_keep_file_shadows_too(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"line 4: rules\[0\] can never decide: rule 'keep_file'"):
        policy_of(
            tmp_path, f"keep_file: keep.txt\n{rules('name: a, action: delete, match: {groups: x1}')}", keep_txt="x*\n"
        )


def test_a_rule_that_excepts_all_of_its_groups_never_matches(tmp_path: Path) -> None:
    with pytest.raises(
        PolicyError, match=r"line 3: rules\[0\].match.except excepts everything in groups, so the rule "
    ):
        policy_of(tmp_path, rules("name: a, action: delete, match: {groups: 'xy*', except: 'x*'}"))


patterns = st.text("ab*?[]", min_size=1, max_size=5).filter(
    lambda pattern: pattern != "[]"
)  # no pattern: a list's text
globs = st.lists(patterns, max_size=3).map(tuple)


@given(globs, globs, globs, st.lists(st.text("ab[]", min_size=1, max_size=5), max_size=20))
def test_what_is_covered_is_never_left_to_the_later_rule(
    earlier: tuple[str, ...], later: tuple[str, ...], excepted: tuple[str, ...], ids: list[str]
) -> None:
    one, other = Match(groups=earlier, excepted=excepted), Match(groups=later)
    if not CoveringMatch(one).covers(other):
        return
    first, second = (GroupFilter(match.groups or ("*",), match.excepted) for match in (one, other))
    assert not [group_id for group_id in ids if second.selects(group_id) and not first.selects(group_id)]


NEVER = [
    (
        "match: {except: [x, '*'], types: classic}",  # which matches the group with the empty id
        "except excepts every group that has a name. Remove the rule, or except less, or write 're:^$' in groups",
    ),
    (
        "match: {owners: [search, paymnts]}",
        "owners (got 'paymnts') owns no groups, so it can never match; did you mean",
    ),
    ("match: {groups: [orders, job-x], families: number}", "families can never match: none of the ids in groups is of"),
    ("match: {groups: ['flink-a*', '__x']}", "groups are all protected, so the rule can never delete. Remove the rule"),
]
CAN = [
    "match: {except: 'x*'}",
    "match: {owners: [search, payments]}",
    "match: {families: [uuid, 'app-<uuid>']}",
    "match: {groups: [orders, job-7], families: number}",
    "match: {groups: ['re:orders', 'job-*'], families: number}",
    "match: {groups: ['flink-a*', 'x']}",
    "match: {groups: 're:^$'}",
]
OWNERS = "owners: {payments: {groups: 'pay*'}, search: {groups: 's*'}}\nprotect: ['flink-*', '__*']\n"


@pytest.mark.parametrize(("condition", "problem"), NEVER)
def test_a_rule_that_can_never_match_is_an_error(condition: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as raised:
        policy_of(tmp_path, OWNERS + rules(f"name: a, action: delete, {condition}"))
    assert f"policy.yaml, line 5: rules[0].match.{problem}" in str(raised.value)


@pytest.mark.parametrize("condition", CAN)
def test_a_rule_that_can_match_is_none(condition: str, tmp_path: Path) -> None:
    assert len(policy_of(tmp_path, OWNERS + rules(f"name: a, action: delete, {condition}")).rules) == 2


@pytest.mark.parametrize("more", ["owner_from_id: '{owner}.*'", "owner_file: owners.yaml"])
def test_an_owner_by_name_or_file_is_known(more: str, tmp_path: Path) -> None:
    line = rules("name: a, action: keep, match: {owners: web}")
    assert policy_of(tmp_path, f"{more}\n{line}", owners_yaml="'w*': web\n").rules


def test_a_rule_that_keeps_protected_groups_is_fine(tmp_path: Path) -> None:
    assert policy_of(tmp_path, "protect: x*\n" + rules("name: a, action: report, match: {groups: x1}")).rules


NOTICE = "name: a, action: delete, match: {owners: team}, notice: 3d"


def test_an_owner_to_be_notified_needs_a_contact(tmp_path: Path) -> None:
    team = "owners: {team: {groups: x*}}\n"
    with pytest.raises(PolicyError, match=r"line 4: rules\[0\] demands a notice, and the owner 'team' has no contact"):
        policy_of(tmp_path, team + rules(NOTICE))
    known = team.replace("x*", "x*, contact: t@example.com")
    assert policy_of(tmp_path, known + rules(NOTICE)).warnings == ()
    assert policy_of(tmp_path, f"defaults: {{contact: '#all'}}\n{team}{rules(NOTICE)}").warnings == ()
    own = "name: a, action: delete, owner: team, notice: 3d"
    with pytest.raises(PolicyError, match="'team' has no contact"):
        policy_of(tmp_path, rules(own))


def test_groups_that_nobody_can_be_notified_about_are_a_warning(tmp_path: Path) -> None:
    (warning,) = policy_of(tmp_path, rules("name: a, action: delete, notice: 3d")).warnings
    assert "rule 'a' demands a notice: groups without an owner" in warning
    (named,) = policy_of(tmp_path, OWNERS + rules("name: a, action: delete, notice: 3d")).warnings
    assert "whose owner has no contact (payments, search), are kept" in named


def test_a_rule_by_last_client_without_a_limit_of_gaps_is_a_warning(tmp_path: Path) -> None:
    by_client = rules("name: a, action: delete, match: {clients: x}")
    (warning,) = policy_of(tmp_path, by_client).warnings
    assert "rule 'a' matches by last client, and limits have no max_gap" in warning
    assert not policy_of(tmp_path, by_client + "limits: {max_gap: 2h}\n").warnings
    assert policy_of(tmp_path, by_client + "limits: {max_gap: 0d}\n").warnings == (warning,), "that is no limit"


@pytest.mark.parametrize("contact", ["", ", contact: all@example.com"])
def test_the_default_rule_may_notify_nobody_too(contact: str, tmp_path: Path) -> None:
    """Its groups waited for a notice that nobody could be sent, and no warning said so."""
    defaults = f"defaults: {{action: delete, notice: 2d{contact}}}\n"
    file = policy_of(tmp_path, f"version: 1\n{defaults}rules: [{{name: a, match: {{groups: a}}, action: keep}}]\n")
    assert [warning.partition(":")[0] for warning in file.warnings] == (
        [] if contact else ["rule 'default' demands a notice"]
    )
