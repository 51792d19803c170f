"""Days in the life of a policy that demands notices."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from airflow_kafka_groups.change.backup.make_backup import back_up_plan
from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.change.plan.notify import Notified, OwnerNotice, notify_owners
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan, save_plan
from airflow_kafka_groups.ledger.ledger import Known
from airflow_kafka_groups.ledger.notice_book import read_notices
from airflow_kafka_groups.ledger.records import KeptAlive
from airflow_kafka_groups.observe.patterns import EVERYTHING
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, NOW, Ticking
from tests.fakes.verdicts import verdicts_of
from tests.unit.change.scene import delete_plan, judge, layout_in
from tests.unit.judge.policy.files import policy_of

DAY = timedelta(days=1)


POLICY = """\
    version: 1
    owners:
      pay: {groups: "pay*", contact: pay@example.com}
      web: {groups: "web*", contact: web@example.com}
    rules:
      - {name: soon, match: {groups: "soon*"}, action: delete, idle: 1d}
      - {name: noticed, action: delete, idle: 1d, notice: 2d}
    """


class Story:
    """Days in the life of a policy."""

    def __init__(self, folder: Path, *names: str, policy: str = POLICY) -> None:
        self.folder, self.layout, self.admin = folder, layout_in(folder), FakeAdmin()
        for name in names:
            self.admin.add(name, ("t", 0, 5))
        self.file: PolicyFile = policy_of(folder, policy)
        self.sent: list[OwnerNotice] = []
        self.idle_since = NOW - 9 * DAY

    async def plan(
        self,
        at: datetime,
        kept_alive: Mapping[str, KeptAlive] | None = None,
        include: tuple[str, ...] = EVERYTHING,
        hidden: bool = False,
        **judged: Any,
    ) -> DeletionPlan:
        summary = await take_snapshot(self.admin, self.layout, include=include, now=Ticking(at))
        reader = SnapshotReader(self.layout, summary.snapshot_id)
        policy = PlanPolicy(max_share=1.0, allow_hidden_topics=hidden).by_file(self.file)
        plan = make_plan(
            verdicts_of(judge(reader, **{"idle_since": self.idle_since, **judged})),
            reader,
            policy,
            at + timedelta(minutes=1),
            owners=self.file.owners,
            notices=read_notices(self.layout, CLUSTER_ID, policy.rules),
            known=Known(kept_alive=kept_alive or {}),
        )
        save_plan(self.layout, plan)
        return plan

    def notify(self, plan: DeletionPlan, at: datetime, dry_run: bool = False, fails: tuple[str, ...] = ()) -> Notified:
        def send(notice: OwnerNotice) -> None:
            if notice.owner in fails:
                raise OSError("https://hooks.example.com/a-secret")
            self.sent.append(notice)

        return notify_owners(self.layout, plan, send, dry_run=dry_run, report="the report", now=lambda: at)

    async def had_members(self, days: int = 20) -> dict[str, Any]:
        """Let a snapshot of so many days ago show members, of the client id "c", and return what the judge knows."""
        self.admin.groups["pay1"].members = 2
        await take_snapshot(self.admin, self.layout, now=Ticking(NOW - days * DAY))
        self.admin.groups["pay1"].members = 0
        return {"first_seen_at": NOW - (days + 1) * DAY}

    async def delete(self, plan: DeletionPlan, at: datetime) -> dict[str, tuple[str, str]]:
        await back_up_plan(self.admin, self.layout, plan, now=Ticking(at))
        result = await delete_plan(self.admin, self.layout, plan, policy=self.file, now=Ticking(at))
        return {item.group_id: (item.outcome.value, item.code) for item in result.report.outcomes}


def waiting(plan: DeletionPlan) -> list[str]:
    return [group.group_id for group in plan.kept if group.verdict == "notice"]
