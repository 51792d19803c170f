"""Policies of thousands of rules: by count, not by time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from airflow_kafka_groups.change.plan.caps import Ranked, capped
from airflow_kafka_groups.exceptions import PolicyError
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.judge.policy.retention import against_retention
from airflow_kafka_groups.observe.patterns import PatternSet
from airflow_kafka_groups.shown import MOST_ALIKE
from tests.unit.judge.policy.files import policy_of


def counting(calls: list[int], function: Callable[..., Any], amount: Callable[..., int]) -> Callable[..., Any]:
    def counted(*arguments: Any) -> Any:
        calls.append(amount(*arguments))
        return function(*arguments)

    return counted


def policy(rules: int, protected: int = 0, last: str = "", owned: str = ", owners: t{}") -> str:
    protect = f"protect: [{', '.join(f'p{number}-*' for number in range(protected))}]\n" if protected else ""
    line = "- {{name: r{0}, action: delete, match: {{groups: ['g{0}.*', 'h-{0}']{1}}}}}\n"
    lines = [line.format(number, owned.format(number)) for number in range(rules)]
    owners = "".join(f"  t{number}: {{groups: 'g{number}.*'}}\n" for number in range(rules))
    return f"version: 1\n{protect}owners:\n{owners}rules:\n{''.join(lines)}{last}"


def compiled(folder: Path, text: str) -> int:
    """Return how many patterns were compiled to read a policy."""
    calls = list[int]()
    with patch.object(PatternSet, "__init__", counting(calls, PatternSet.__init__, lambda _, some, **__: len(some))):
        policy_of(folder, text)
    return sum(calls)


def test_the_patterns_of_a_rule_are_compiled_for_it_and_not_for_each_later_rule(tmp_path: Path) -> None:
    assert compiled(tmp_path, policy(80, owned="")) <= 3 * compiled(tmp_path, policy(40, owned=""))


def test_protected_patterns_are_not_compiled_for_each_rule(tmp_path: Path) -> None:
    more = compiled(tmp_path, policy(40, protected=100)) - compiled(tmp_path, policy(40, protected=50))
    assert more <= 2 * 50


def test_a_rule_that_never_decides_is_found_among_many(tmp_path: Path) -> None:
    last = "- {name: last, action: delete, match: {groups: 'g7.a-*', owners: t7}}\n"
    with pytest.raises(PolicyError, match=r"rules\[40\] can never decide: rule 'r7' before it"):
        policy_of(tmp_path, policy(40, last=last))
    owned = (
        "- {name: all, action: keep, match: {owners: [t7, t8]}}\n- {name: one, action: delete, match: {owners: t8}}\n"
    )
    with pytest.raises(PolicyError, match=r"rules\[41\] can never decide: rule 'all' before it"):
        policy_of(tmp_path, policy(40, last=owned))


def test_of_warnings_of_one_kind_the_first_are_shown_and_the_others_counted(tmp_path: Path) -> None:
    """They are in the plan, its XCom, the question, the report and the mail: 2,000 rules made a megabyte of them."""
    conditions = "action: delete, idle: 9d, notice: 1d, max_groups: 0, match: {{groups: 'g{0}', clients: c}}"
    lines = [f"- {{name: r{number}, {conditions.format(number)}}}\n" for number in range(100)]
    file = policy_of(tmp_path, f"version: 1\nrules:\n{''.join(lines)}")
    assert len(file.warnings) == 2 * (MOST_ALIKE + 1)
    assert [warning for warning in file.warnings if warning.startswith("80 more rule(s) ")] == [
        "80 more rule(s) match by last client without a max_gap",
        "80 more rule(s) demand a notice of which some groups have no contact",
    ]
    _, retention = against_retention(file.rules, 7 * 1_440)
    assert (len(retention), retention[-1]) == (
        MOST_ALIKE + 1,
        "80 more rule(s) wait for longer than the brokers remember a group",
    )
    stale = [Ranked(f"g{number}", 1e6, f"r{number}") for number in range(100)]
    assert capped(stale, 1_000, PlanPolicy(max_share=1.0).by_file(file))[2] == [
        *(f"1 groups may be deleted by rule 'r{number}'; its cap allows 0 per plan" for number in range(MOST_ALIKE)),
        "80 more rule(s) have caps below the groups that may be deleted",
    ]


def test_a_message_does_not_name_every_owner(tmp_path: Path) -> None:
    """By bytes: of 500 teams and 2,000 rules for one that is none, the error had 10 MB."""
    unknown = "- {name: lost, action: keep, match: {owners: [zzz, yyy]}}\n"
    with pytest.raises(
        PolicyError, match=r"\(got 'zzz'\) owns no groups.* known are t0, t1, .* and 170 more\."
    ) as error:
        policy_of(tmp_path, policy(200, last=unknown))
    assert len(str(error.value)) < 1_000
