"""The policy file is read again before a deletion: an edit can keep groups of the plan, and release none."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_kafka_groups.change.deletion.guards.newer_policy import kept_by_newer_policy
from airflow_kafka_groups.change.deletion.run import delete_by_plan
from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.hooks.storage import policy_reader
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.judge.policy.rules import RuleFacts, RuleMatcher, Ruling
from airflow_kafka_groups.kafka.models import GroupType
from airflow_kafka_groups.ledger.approval_rules import ALWAYS, NEVER, ApprovalTerms
from airflow_kafka_groups.ledger.deletion_plan import policy_of_plan
from airflow_kafka_groups.ledger.floors import NO_FLOORS
from tests.fakes.admin import FakeAdmin
from tests.unit.change.deletion.plans import plan_by
from tests.unit.change.scene import delete_plan, layout_in, request
from tests.unit.judge.policy.files import policy_of

POLICY = """\
    version: 1
    defaults: {contact: x}
    rules:
      - {name: a, match: {groups: "a*"}, action: delete, idle: 2d}
      - {name: rest, action: delete, idle: 2d}
    """


def world() -> FakeAdmin:
    admin = FakeAdmin()
    for name in ("a1", "a2", "b1"):
        admin.add(name, ("audit", 0, 5))
    return admin


async def kept_after(edit: tuple[str, str], folder: Path) -> dict[str, str]:
    plan = await plan_by(policy_of(folder, POLICY), world(), folder)
    assert edit[0] in POLICY
    return {
        group_id: decision.reason
        for group_id, decision in kept_by_newer_policy(plan, policy_of(folder, POLICY.replace(*edit))).items()
    }


EDITS = {
    "another action": (('"a*"}, action: delete', '"a*"}, action: keep'), {"a1", "a2"}),
    "a report": (("{name: rest, action: delete", "{name: rest, action: report"), {"b1"}),
    "a longer idle time": (("{name: rest, action: delete, idle: 2d", "{name: rest, action: delete, idle: 10d"), {"b1"}),
    "a shorter idle time": (("{name: rest, action: delete, idle: 2d", "{name: rest, action: delete, idle: 1d"), set()),
    "more snapshots": (("{name: rest,", "{name: rest, observations: 3,"), {"b1"}),
    "a notice": (("{name: rest,", "{name: rest, notice: 1d,"), {"b1"}),
    "an approval": (("{name: rest,", "{name: rest, approval: always,"), {"b1"}),
    "a cap": (("{name: a,", "{name: a, max_groups: 1,"), {"a1", "a2"}),
    "another owner": (("rules:", "owners: {x: {groups: b1}}\n    rules:"), {"b1"}),
    "more groups": (('groups: "a*"', "groups: ['a*', c]"), set()),
    "a new rule": (("- {name: rest", "- {name: b, match: {groups: b1}, action: delete}\n      - {name: rest"), {"b1"}),
    "a protected pattern": (("rules:", "protect: a1\n    rules:"), {"a1"}),
    "a rule by topic that may match": (
        ("rules:\n", "rules:\n      - {name: t, match: {groups: 'a*', topics: audit}, action: keep}\n"), {"a1", "a2"}),
    "another name": (("name: rest", "name: others"), {"b1"}),
    "a comment": (("rules:", "# nothing else\n    rules:"), set()),
}  # fmt: skip


@pytest.mark.safety
@pytest.mark.parametrize(("edit", "kept"), EDITS.values(), ids=EDITS)
async def test_what_the_edited_policy_keeps_is_kept(edit: tuple[str, str], kept: set[str], tmp_path: Path) -> None:
    assert set(await kept_after(edit, tmp_path)) == kept


@pytest.mark.safety
async def test_a_share_group_is_kept_where_an_edit_took_away_the_name_of_its_type(tmp_path: Path) -> None:
    admin, policy = FakeAdmin(), POLICY.replace('groups: "a*"', "types: share")
    admin.add("s", ("audit", 0, 5), type=GroupType.SHARE, protocol_type="share")
    plan = await plan_by(policy_of(tmp_path, policy), admin, tmp_path)
    for edit, kept in (("types: [share, classic]", set()), ("groups: s", {"s"}), ("types: classic", {"s"})):
        edited = policy_of(tmp_path, policy.replace("types: share", edit))
        assert set(kept_by_newer_policy(plan, edited)) == kept


async def test_rules_are_taken_once_for_all_groups_of_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By count: the lease is held meanwhile, and group by group 10,000 groups and 2,000 rules took a quarter minute."""
    asked, real = list[int](), RuleMatcher.rule_all

    def noted(matcher: RuleMatcher, groups: Sequence[RuleFacts]) -> list[Ruling]:
        asked.append(len(groups))
        return real(matcher, groups)

    plan = await plan_by(policy_of(tmp_path, POLICY), world(), tmp_path)
    edited = policy_of(tmp_path, POLICY.replace("idle: 2d", "idle: 10d"))
    monkeypatch.setattr(RuleMatcher, "rule_all", noted)
    assert set(kept_by_newer_policy(plan, edited)) == {"a1", "a2", "b1"}
    assert asked == [3]


@pytest.mark.safety
@pytest.mark.parametrize(
    "limit", ["require_commit_log: true", "max_gap: 1d", "max_plan_age: 1m", "max_groups: 1", "refuse_share: 0.7"]
)
async def test_a_policy_that_demands_more_of_a_complete_plan_by_now_refuses_it(limit: str, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"a limit of the policy .* was edited"):
        await kept_after(("rules:", f"limits: {{{limit}}}\n    rules:"), tmp_path)


async def test_an_unchanged_policy_keeps_nothing(tmp_path: Path) -> None:
    file = policy_of(tmp_path, POLICY)
    plan = await plan_by(file, world(), tmp_path)
    assert kept_by_newer_policy(plan, file) == {}
    assert kept_by_newer_policy(replace(plan, policy=PlanPolicy()), None) == {}, "it was made without a file"


@pytest.mark.safety
async def test_a_deletion_keeps_what_its_owner_kept_by_an_edit(tmp_path: Path) -> None:
    admin = world()
    plan = await plan_by(policy_of(tmp_path, POLICY), admin, tmp_path)
    edited = policy_of(tmp_path, POLICY.replace("rules:", "protect: a2\n    rules:"))
    report = (await delete_plan(admin, layout_in(tmp_path), plan, policy=edited)).report
    assert {item.group_id: (item.outcome.value, item.code) for item in report.outcomes} == {
        "a1": ("deleted", "safe"), "a2": ("kept", "policy"), "b1": ("deleted", "safe"),
    }  # fmt: skip


@pytest.mark.safety
@pytest.mark.parametrize("dry_run", [True, False])
async def test_without_the_policy_nothing_is_deleted(dry_run: bool, tmp_path: Path) -> None:
    admin = world()
    plan = await plan_by(policy_of(tmp_path, POLICY), admin, tmp_path)
    with pytest.raises(PlanError, match="was not read again"):
        await delete_plan(admin, layout_in(tmp_path), plan, dry_run=dry_run)
    assert set(admin.groups) == {"a1", "a2", "b1"}


@pytest.mark.safety
async def test_a_rule_that_demands_an_approval_gets_one_whatever_the_run_says(tmp_path: Path) -> None:
    admin, file = world(), policy_of(tmp_path, POLICY.replace("{name: a,", "{name: a, approval: always,"))
    plan = await plan_by(file, admin, tmp_path)
    assert plan.rules_to_approve == ["a"]
    never = ApprovalTerms(rule=NEVER)
    assert NO_FLOORS.approval(never, plan).rule == ALWAYS
    with pytest.raises(PlanError, match="approv"):
        await delete_plan(admin, layout_in(tmp_path), plan, approval=never, policy=file)
    assert set(admin.groups) == {"a1", "a2", "b1"}
    del admin.groups["a1"], admin.groups["a2"]
    others = await plan_by(file, admin, tmp_path / "others")
    assert (others.rules_to_approve, NO_FLOORS.approval(never, others).rule) == ([], NEVER)


class EditsWhileWaiting:
    """Another run's lease, which is given back after an owner has edited the policy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def __aenter__(self) -> None:
        policy_of(self.folder, POLICY.replace("rules:", "protect: a2\n    rules:"))

    async def __aexit__(self, *_: object) -> None:
        return None


@pytest.mark.safety
async def test_an_edit_while_the_deletion_waits_for_its_lease_counts(tmp_path: Path) -> None:
    admin, file = world(), policy_of(tmp_path, POLICY)
    plan, layout = await plan_by(file, admin, tmp_path), layout_in(tmp_path)
    policy_of(tmp_path, POLICY)
    waits = replace(request(), lease=lambda: EditsWhileWaiting(tmp_path))
    read = policy_reader(policy_of_plan(layout, plan.plan_id))
    report = (await delete_by_plan(admin, layout, plan.plan_id, plan.digest, waits, policy=read)).report
    assert {item.group_id: item.outcome.value for item in report.outcomes} == {
        "a1": "deleted", "a2": "kept", "b1": "deleted",
    }  # fmt: skip
