"""A plan by a policy file, with its backup."""

from pathlib import Path

from airflow_kafka_groups.change.backup.make_backup import back_up_plan
from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan, save_plan
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import Ticking
from tests.fakes.verdicts import verdicts_of
from tests.unit.change.scene import LATER, judge, layout_in, snapshot


async def plan_by(file: PolicyFile, admin: FakeAdmin, folder: Path) -> DeletionPlan:
    layout = layout_in(folder)
    reader = await snapshot(admin, layout)
    plan = make_plan(
        verdicts_of(judge(reader)), reader, PlanPolicy(max_share=1.0).by_file(file), LATER, owners=file.owners
    )
    save_plan(layout, plan)
    await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    return plan
