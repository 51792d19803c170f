"""One deletion of ``DeleteGroupsOperator``: by plan or by name, recorded even if it is interrupted."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError, PlanError
from airflow_kafka_groups.operators.support.approval_rules import check_approval, why_approval
from airflow_kafka_groups.operators.support.base import FIRST_FAILURES

if TYPE_CHECKING:
    from airflow_kafka_groups.hooks.guard import GuardedAdminClient
    from airflow_kafka_groups.maintenance.backup.file import Backup
    from airflow_kafka_groups.maintenance.deletion.lease import LeaseGuard
    from airflow_kafka_groups.maintenance.deletion.outcomes import DeletionReport, GroupOutcome
    from airflow_kafka_groups.maintenance.deletion.verify import Verification
    from airflow_kafka_groups.maintenance.plan.deletion_plan import DeletionPlan
    from airflow_kafka_groups.maintenance.storage import Layout
    from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator


class Run:
    """Be one deletion: what it asks for, and what is known of it if it is interrupted."""

    def __init__(self, operator: DeleteGroupsOperator, layout: Layout, dry_run: bool) -> None:
        from airflow_kafka_groups.maintenance.storage import utc_now

        self.operator = operator
        self.layout = layout
        self.dry_run = dry_run
        self.kafka_cluster_id: str | None = None
        self.wanted: list[str] = []
        self.plan: DeletionPlan | None = None
        self.noted: list[GroupOutcome] = []
        self.take_lease: Callable[[], AbstractAsyncContextManager[LeaseGuard | None]] = nullcontext
        self.lease: LeaseGuard | None = None
        self.record: Callable[[DeletionReport, Verification | None], str]
        self._started_at = utc_now()

    async def begin(self) -> None:
        """Write the record of a run that has begun: one that is killed outright leaves at least this behind.

        Where it cannot be written nothing is deleted.
        """
        report = self._so_far("begun", "the run has begun, and its end is not recorded")
        await asyncio.to_thread(self.record, report, None)

    async def delete(self, admin: GuardedAdminClient) -> DeletionReport:
        """Delete, and say what became of each group."""
        raise NotImplementedError

    def approved(self) -> dict[str, str]:
        """Give who approved it, for the record."""
        return {}

    async def delete_and_verify(self, admin: GuardedAdminClient) -> tuple[DeletionReport, Verification | None]:
        """Delete, under the lease if there is to be one, and look whether what was deleted is gone."""
        from airflow_kafka_groups.maintenance.deletion.outcomes import Outcome
        from airflow_kafka_groups.maintenance.deletion.verify import settle, verify_deleted

        self.kafka_cluster_id = await admin.cluster_id()
        async with self.take_lease() as self.lease:
            report = await self.delete(admin)
        doubtful = report.ids(Outcome.DELETED, Outcome.UNKNOWN)
        if self.dry_run or not doubtful:
            return report, None
        try:
            verification = await verify_deleted(admin, doubtful)
        except KafkaGroupsError as exc:
            self.operator.log.warning("The deletion could not be verified: %s", exc)
            return report, None
        return settle(report, verification), verification

    def note(self, outcomes: Sequence[GroupOutcome]) -> None:
        """Keep what became of a chunk, and log the sum of it and the first few reasons; the record has them all."""
        self.noted.extend(outcomes)
        counts = Counter(item.outcome.value for item in outcomes)
        self.operator.log.info("%s", ", ".join(f"{name} {count}" for name, count in counts.items()))
        for item in outcomes[:FIRST_FAILURES]:
            self.operator.log.info("%s: %s (%s)", item.outcome.value, item.group_id, item.reason)

    @contextmanager
    def recorded_if_interrupted(self) -> Iterator[None]:
        """Write the record even if the task is killed in the middle: what was deleted must be on file."""
        try:
            yield
        except BaseException as exc:
            # The package's own errors are raised before anything is deleted; any other may come at any time.
            if self.noted or (self.wanted and not isinstance(exc, KafkaGroupsError)):
                report = self._so_far("interrupted", f"the run was interrupted ({type(exc).__name__})")
                self.operator.log.error("Interrupted; recorded in %s", self.record(report, None))
            raise

    def _so_far(self, code: str, why: str) -> DeletionReport:
        from airflow_kafka_groups.maintenance.deletion.lease import lease_record
        from airflow_kafka_groups.maintenance.deletion.outcomes import DeletionReport, GroupOutcome, Outcome
        from airflow_kafka_groups.maintenance.storage import utc_now

        known = {item.group_id for item in self.noted}
        rest = [
            GroupOutcome(
                group_id=group_id,
                outcome=Outcome.UNKNOWN,
                code=code,
                reason=f"{why}: look whether the group is there",
            )
            for group_id in self.wanted
            if group_id not in known
        ]
        return DeletionReport(
            plan_id=self.plan.plan_id if self.plan else None,
            plan_digest=self.plan.digest if self.plan else None,
            cluster=self.layout.cluster,
            dry_run=self.dry_run,
            started_at=self._started_at,
            finished_at=utc_now(),
            outcomes=(*self.noted, *rest),
            warnings=(why,),
            lease=lease_record(self.lease, dry_run=self.dry_run),
        )


class PlannedRun(Run):
    """Be the deletion of a plan's groups, approved where that is asked for."""

    def __init__(self, operator: DeleteGroupsOperator, layout: Layout, dry_run: bool) -> None:
        from airflow_kafka_groups.hooks.arguments import read_text
        from airflow_kafka_groups.maintenance.backup.file import load_backup
        from airflow_kafka_groups.maintenance.deletion.audit import deleted_by, load_audits
        from airflow_kafka_groups.maintenance.plan.deletion_plan import check_digest, load_plan

        super().__init__(operator, layout, dry_run)
        self.digest = check_digest("plan_digest", operator.plan_digest)
        self.plan = load_plan(layout, read_text("plan_id", operator.plan_id))
        self.wanted = self.plan.group_ids
        settings = operator.hook.settings
        if protected := [group_id for group_id in self.wanted if settings.protects(group_id)]:
            raise PlanError(
                f"plan {self.plan.plan_id} names {len(protected)} group(s) that connection {settings.conn_id!r} "
                f"protects, first {protected[0]!r}: make a new plan"
            )
        why = why_approval(operator.approval_rule, operator.approve_above, planned=len(self.wanted), dry_run=dry_run)
        self.approval = None if why is None else check_approval(operator.approval, self.plan)
        # A group that this plan has deleted and that is there again was restored, or is used anew: a task that is
        # cleared must not delete it a second time, and a restored group looks just as it did when it was judged.
        self.before = deleted_by(load_audits(layout, self.plan.plan_id).values())
        # A dry run may be asked for before there is a backup.
        without = dry_run and not layout.backup_manifest(self.plan.plan_id).exists()
        self.backup = None if without else self._without_kept(load_backup(layout, self.plan.plan_id))

    def approved(self) -> dict[str, str]:
        """Give who approved the plan, and when."""
        if self.approval is None:
            return {}
        return {"approved_by": self.approval.approved_by, "approved_at": self.approval.approved_at}

    def _without_kept(self, backup: Backup) -> Backup:
        """Leave out what is to be kept in any case: nothing can be deleted that is not in the backup."""
        kept = self.before.keys() | self._excluded()
        return replace(backup, entries={id_: entry for id_, entry in backup.entries.items() if id_ not in kept})

    def _excluded(self) -> frozenset[str]:
        return frozenset() if self.approval is None else self.approval.excluded

    async def delete(self, admin: GuardedAdminClient) -> DeletionReport:
        """Delete what is planned, approved and backed up."""
        from airflow_kafka_groups.maintenance.deletion.planned import delete_planned

        assert self.plan is not None  # noqa: S101 - set by the constructor
        report = await delete_planned(
            admin,
            self.plan,
            self.backup,
            dry_run=self.dry_run,
            approved_digest=self.digest,
            options=self.operator.options(self),
        )
        return replace(report, outcomes=tuple(self._explained(item) for item in report.outcomes))

    def _explained(self, item: GroupOutcome) -> GroupOutcome:
        """Say of a group that was to be kept in any case why it was."""
        from airflow_kafka_groups.maintenance.deletion.outcomes import Outcome

        if item.outcome is not Outcome.KEPT:
            return item
        if self.approval is not None and item.group_id in self.approval.excluded:
            return replace(item, code="excluded", reason=f"{self.approval.approved_by} kept it at the approval")
        if (run_id := self.before.get(item.group_id)) is not None:
            reason = f"run {run_id} of this plan deleted it, and it is there again: only a new plan may judge it anew"
            return replace(item, code="deleted_before", reason=reason)
        return item


class ExplicitRun(Run):
    """Be the deletion of groups named by hand."""

    def __init__(self, operator: DeleteGroupsOperator, layout: Layout, dry_run: bool) -> None:
        super().__init__(operator, layout, dry_run)
        self.wanted = operator.group_ids or []
        self.observe_seconds = operator.observe_seconds
        self.allow_hidden_topics = operator.allow_hidden_topics

    async def delete(self, admin: GuardedAdminClient) -> DeletionReport:
        """Watch the groups, back them up, delete them."""
        from airflow_kafka_groups.maintenance.deletion.ad_hoc import delete_explicit
        from airflow_kafka_groups.maintenance.patterns import DEFAULT_PROTECTED

        listed = (await admin.list_groups()).require_complete()
        missing = [group_id for group_id in self.wanted if group_id not in listed]
        if missing and not self.operator.ignore_missing:
            raise ConfigurationError(
                "group_ids", missing, "these groups do not exist on the cluster; nothing was deleted"
            )
        return await delete_explicit(
            admin,
            self.wanted,
            dry_run=self.dry_run,
            observe_seconds=self.observe_seconds,
            allow_hidden_topics=self.allow_hidden_topics,
            protected=(*DEFAULT_PROTECTED, *self.operator.hook.settings.protected_groups),
            layout=self.layout,
            options=self.operator.options(self),
        )
