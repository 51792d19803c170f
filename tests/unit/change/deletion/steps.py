"""Steps of the scripts of a deletion by plan."""

from typing import Any

from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.outcomes import DeletionReport
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import timeout
from tests.unit.change.scene import delete_plan


async def delete(admin: FakeAdmin, layout: Layout, plan: DeletionPlan, **how: Any) -> DeletionReport:
    return (await delete_plan(admin, layout, plan, **how)).report


def fates(report: DeletionReport) -> dict[str, str]:
    return {item.group_id: f"{item.outcome.value}:{item.code}" for item in report.outcomes}


def cluster(*names: str) -> FakeAdmin:
    admin = FakeAdmin()
    for number, name in enumerate(names):
        admin.add(name, ("t", 0, number))
    return admin


def look_only_once(admin: FakeAdmin) -> None:
    """Let the second listing, by which a deletion is verified, fail: what is unknown stays so."""
    before, lists = admin.before, [0]

    def count(call: str) -> None:
        before(call)
        lists[0] += call == "list"
        if call == "list" and lists[0] > 1:
            raise timeout()

    admin.before = count
