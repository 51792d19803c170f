"""Plans of a cluster in memory by a policy file."""

from pathlib import Path
from typing import Any

from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from tests.fakes.admin import FakeAdmin
from tests.fakes.verdicts import verdicts_of
from tests.unit.change.scene import LATER, judge, layout_in, snapshot

BASE = PlanPolicy(max_share=1.0)


POLICY = """\
    version: 1
    owners: {pay: {groups: "pay.*", contact: pay@example.com}}
    owner_from_id: "{owner}.*"
    protect: flink-*
    rules:
      - {name: kept, match: {groups: "*.critical"}, action: keep}
      - {name: alive, match: {groups: "sleepy"}, action: keep-alive}
      - {name: audit, match: {topics: "audit*"}, action: report}
      - {name: pay, match: {owners: pay}, action: delete, idle: 30d}
      - {name: often, match: {groups: "often*"}, action: delete, idle: 1d, observations: 4}
      - {name: told, match: {groups: "told"}, action: delete, idle: 1d, notice: 3d, owner: someone}
      - {name: rest, action: delete, idle: 8d}
    defaults: {contact: all@example.com}
    """


async def plan_by(
    file: PolicyFile, admin: FakeAdmin, folder: Path, base: PlanPolicy = BASE, **how: Any
) -> DeletionPlan:
    reader = await snapshot(admin, layout_in(folder))
    changes = how.pop("judged", {})
    return make_plan(
        verdicts_of(judge(reader, **changes)), reader, base.by_file(file), LATER, owners=file.owners, **how
    )


def world(*names: str) -> FakeAdmin:
    admin = FakeAdmin()
    for name in names:
        admin.add(name, ("t", 0, 5))
    return admin


def kept(plan: DeletionPlan) -> dict[str, tuple[str, str | None]]:
    return {group.group_id: (group.verdict, group.rule) for group in plan.kept}
