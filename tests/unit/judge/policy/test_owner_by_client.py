"""Owners by last client: what does not know the client takes a rule by owners for one that may match."""

from datetime import timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.change.backup.make_backup import back_up_plan
from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan, save_plan
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import NOW, Ticking
from tests.fakes.verdicts import verdicts_of
from tests.unit.change.prune_topics import scene as pruning
from tests.unit.change.scene import LATER, delete_plan, judge, layout_in, snapshot
from tests.unit.judge.policy.files import policy_of

pytestmark = pytest.mark.safety

BEFORE = """
    version: 1
    rules:
      - {name: batch, match: {clients: "batch-*"}, action: delete, idle: 2d}
      - {name: rest, action: delete, idle: 1d}
    """
ANSWERED = BEFORE.replace("rules:\n", "rules:\n      - {name: answer, match: {owners: c}, action: keep}\n")
"""The owner, whom the plan's report names by the last client, answers."""


async def test_an_edit_that_keeps_an_owner_keeps_the_groups_of_a_plan_that_waits(tmp_path: Path) -> None:
    admin, layout = FakeAdmin(), layout_in(tmp_path)
    admin.add("seen", ("audit", 0, 5), members=2)
    members_left = NOW - timedelta(days=20)
    await take_snapshot(admin, layout, now=Ticking(members_left))
    admin.groups["seen"].members = 0
    reader = await snapshot(admin, layout)

    def made(by: PolicyFile) -> DeletionPlan:
        verdicts = judge(reader, first_seen_at=members_left - timedelta(days=1))
        return make_plan(verdicts_of(verdicts), reader, PlanPolicy(max_share=1.0).by_file(by), LATER, owners=by.owners)

    plan = made(policy_of(tmp_path, BEFORE))
    save_plan(layout, plan)
    await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    assert [(group.group_id, group.owner) for group in plan.groups] == [("seen", "c")]
    edited = policy_of(tmp_path, ANSWERED)
    assert made(edited).groups == []
    report = (await delete_plan(admin, layout, plan, policy=edited)).report
    assert [(item.outcome.value, item.code) for item in report.outcomes] == [("kept", "policy")]
    assert "seen" in admin.groups


PRUNING = """
    version: 1
    limits: {max_share: 1.0}
    owners: {team: {groups: "x-*"}}
    rules:
      - {name: answer, match: {owners: %s}, action: keep}
      - {name: prune, action: prune-topics, match: {groups: "app*"}, idle: 1h}
      - {name: rest, match: {%s}, action: delete, idle: 1h}
      - {name: others, action: keep}
    """


@pytest.mark.parametrize(
    ("owner", "rest", "planned"),
    [
        ("c", 'clients: "batch-*"', []),
        ("team", 'clients: "batch-*"', []),  # nobody knows whether c is of the team
        ("team", 'groups: "batch-*"', [("app", "old")]),  # no owner is found by client
    ],
)
async def test_a_pruning_keeps_what_a_rule_by_owners_may_keep(
    tmp_path: Path, owner: str, rest: str, planned: list[tuple[str, str]]
) -> None:
    admin, layout = pruning.cluster(), pruning.layout_in(tmp_path)
    now = await pruning.snapshots(admin, layout)
    found = pruning.plan(layout, now, file=policy_of(tmp_path, PRUNING % (owner, rest)))
    assert [(item.group_id, item.topic) for item in found.groups] == planned
