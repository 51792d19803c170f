"""Delete groups: those of a plan, or those named by hand. Every doubt keeps a group, every run leaves a record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.exceptions import ConfigurationError, GroupsFailedError, KafkaGroupsError, PlanError
from airflow_kafka_groups.operators.base import StoredOperator, first_failures

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_kafka_groups.admin import AdminClient
    from airflow_kafka_groups.maintenance.deletion import DeletionOptions
    from airflow_kafka_groups.maintenance.outcomes import DeletionReport, GroupOutcome
    from airflow_kafka_groups.maintenance.plan import DeletionPlan
    from airflow_kafka_groups.maintenance.storage import Layout
    from airflow_kafka_groups.maintenance.verify import Verification


class DeleteGroupsOperator(StoredOperator):
    """Delete the groups of a plan, or groups named by hand, if they are empty and have not moved.

    Each group is read again a moment before it is deleted: one that has members, is not empty, moved since the plan (or
    while it was watched), is not backed up, or cannot be read is kept. By plan, the backup must have been made
    (``BackupGroupOffsetsOperator``); by hand, the groups are watched for a while and backed up here. What was deleted
    is looked for once more, and the audit record is written, also when the run is interrupted.

    :param storage_path: folder above all clusters: an absolute path or a URL (templated).
    :param cluster: name of the cluster's folder; default: the connection's id (templated).
    :param plan_id: the plan to apply; or ``group_ids`` (templated).
    :param plan_digest: with ``plan_id``: its digest as ``PlanCleanupOperator`` returned it (templated).
    :param group_ids: the groups to delete by name; or ``plan_id``. A duplicate is an error (templated).
    :param ignore_missing: with ``group_ids``: groups that do not exist are fine; default false: the task fails before
        anything is deleted.
    :param observe_seconds: with ``group_ids``: how long they are watched, in seconds, default 10 (templated).
    :param dry_run: do everything except for deleting; default false (templated).
    :param fail_if_kept: fail the task when a group was kept. Default: true for ``group_ids``, false for a plan.
    :param kafka_groups_conn_id: the connection, default ``kafka_groups_default`` (templated).

    Returns ``{"audit_path", "dry_run", "counts", "kept_reasons", "kept": {group: reason}, "verification", …}`` with the
    first 20 kept groups. Fails before anything is deleted when the connection is read-only, the plan is of another
    cluster, was changed, has expired or names a protected group, or a broker did not answer the listing. Fails after
    writing the record when a group could not be deleted, or nobody knows whether it was.
    """

    template_fields: Sequence[str] = (
        *StoredOperator.template_fields,
        "plan_id",
        "plan_digest",
        "group_ids",
        "observe_seconds",
        "dry_run",
    )
    ui_color = "#f0d4d4"

    def __init__(
        self,
        *,
        plan_id: str | None = None,
        plan_digest: str | None = None,
        group_ids: Sequence[str] | str | None = None,
        ignore_missing: bool = False,
        observe_seconds: float | str = 10,
        dry_run: bool | str = False,
        fail_if_kept: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if (plan_id is None) == (group_ids is None):
            raise ConfigurationError("plan_id, group_ids", None, "give exactly one of them")
        if (plan_id is None) != (plan_digest is None):
            raise ConfigurationError("plan_digest", plan_digest, "belongs to plan_id: give both or none")
        self.plan_id = plan_id
        self.plan_digest = plan_digest
        self.group_ids = group_ids
        self.ignore_missing = ignore_missing
        self.observe_seconds = observe_seconds
        # Hides BaseOperator.dry_run(), which Airflow 3 calls nowhere; the word is the one people look for.
        self.dry_run = dry_run  # type: ignore[method-assign,assignment]
        self.fail_if_kept = fail_if_kept
        self._stopped = False

    def on_kill(self) -> None:
        """Begin no further chunk."""
        self._stopped = True

    def execute(self, context: Context) -> dict[str, Any]:
        """Delete with one client, look again, write the record."""
        from airflow_kafka_groups.hooks.arguments import read_flag
        from airflow_kafka_groups.maintenance.audit import audit_record, write_audit
        from airflow_kafka_groups.maintenance.plan import load_plan
        from airflow_kafka_groups.maintenance.storage import new_id, utc_now

        dry_run = read_flag("dry_run", self.dry_run)
        layout = self.layout()
        if not dry_run:
            self.hook.settings.require_writable()
        run = _PlannedRun(self, layout, dry_run) if self.group_ids is None else _ExplicitRun(self, layout, dry_run)

        def record(report: DeletionReport, verification: Verification | None) -> str:
            plan = load_plan(layout, report.plan_id) if report.plan_id else None
            entry = audit_record(
                report,
                run_id=new_id(utc_now()),
                plan=plan,
                verification=verification,
                actor=_actor(context),
                kafka_cluster_id=run.kafka_cluster_id,
            )
            return str(write_audit(layout, entry))

        with run.recorded_if_interrupted(record):
            report, verification = self.hook.run(run.delete_and_verify)
        audit_path = record(report, verification)
        return self._finish(report, verification, audit_path)

    def options(self, run: _Run) -> DeletionOptions:
        """Say how the deletion goes about it."""
        from airflow_kafka_groups.maintenance.deletion import DeletionOptions

        return DeletionOptions(progress=self.log_progress, on_chunk=run.note, stop=lambda: self._stopped)

    def _finish(self, report: DeletionReport, verification: Verification | None, audit_path: str) -> dict[str, Any]:
        from airflow_kafka_groups.maintenance.outcomes import Outcome

        counts = ", ".join(f"{name} {count}" for name, count in report.counts.items() if count)
        self.log.info("%s: %s; recorded in %s", "Dry run" if report.dry_run else "Deletion", counts, audit_path)
        for warning in report.warnings:
            self.log.warning("%s", warning)
        reasons = {item.group_id: item.reason for item in report.outcomes}
        kept = report.ids(Outcome.KEPT)
        failed = [*report.ids(Outcome.FAILED, Outcome.UNKNOWN)]
        if self.fail_if_kept if self.fail_if_kept is not None else self.group_ids is not None:
            failed += kept
        if failed:
            raise GroupsFailedError({id_: KafkaGroupsError(reasons[id_]) for id_ in failed}, len(report.outcomes))
        return {
            **report.summary(),
            "audit_path": audit_path,
            "kept": first_failures({group_id: reasons[group_id] for group_id in kept}),
            "verification": None
            if verification is None
            else {name: len(getattr(verification, name)) for name in ("gone", "present", "unclear")},
        }


class _Run:
    """Be one deletion: what it asks for, and what is known of it if it is interrupted."""

    def __init__(self, operator: DeleteGroupsOperator, layout: Layout, dry_run: bool) -> None:
        self.operator = operator
        self.layout = layout
        self.dry_run = dry_run
        self.kafka_cluster_id: str | None = None
        self.wanted: list[str] = []
        self.plan: DeletionPlan | None = None
        self.noted: list[GroupOutcome] = []

    async def delete(self, admin: AdminClient) -> DeletionReport:
        raise NotImplementedError

    async def delete_and_verify(self, admin: AdminClient) -> tuple[DeletionReport, Verification | None]:
        """Delete, and look whether what was deleted is gone."""
        from airflow_kafka_groups.maintenance.outcomes import Outcome
        from airflow_kafka_groups.maintenance.verify import settle, verify_deleted

        self.kafka_cluster_id = await admin.cluster_id()
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
        """Keep and log what became of a chunk."""
        self.noted.extend(outcomes)
        for item in outcomes:
            self.operator.log.info("%s: %s (%s)", item.outcome.value, item.group_id, item.reason)

    @contextmanager
    def recorded_if_interrupted(self, record: Any) -> Iterator[None]:
        """Write the record even if the task is killed in the middle: what was deleted must be on file."""
        from airflow_kafka_groups.maintenance.storage import utc_now

        started_at = utc_now()
        try:
            yield
        except BaseException as exc:
            # The package's own errors are raised before anything is deleted; any other may come at any time.
            if self.noted or (self.wanted and not isinstance(exc, KafkaGroupsError)):
                self.operator.log.error("Interrupted; recorded in %s", record(self._so_far(started_at, exc), None))
            raise

    def _so_far(self, started_at: Any, exc: BaseException) -> DeletionReport:
        from airflow_kafka_groups.maintenance.outcomes import DeletionReport, GroupOutcome, Outcome
        from airflow_kafka_groups.maintenance.storage import utc_now

        known = {item.group_id for item in self.noted}
        reason = f"the run was interrupted ({type(exc).__name__}): look whether the group is there"
        rest = [
            GroupOutcome(group_id=group_id, outcome=Outcome.UNKNOWN, code="interrupted", reason=reason)
            for group_id in self.wanted
            if group_id not in known
        ]
        return DeletionReport(
            plan_id=self.plan.plan_id if self.plan else None,
            plan_digest=self.plan.digest if self.plan else None,
            cluster=self.layout.cluster,
            dry_run=self.dry_run,
            started_at=started_at,
            finished_at=utc_now(),
            outcomes=(*self.noted, *rest),
            warnings=(f"the run was interrupted: {type(exc).__name__}",),
        )


class _PlannedRun(_Run):
    def __init__(self, operator: DeleteGroupsOperator, layout: Layout, dry_run: bool) -> None:
        from airflow_kafka_groups.hooks.arguments import read_text
        from airflow_kafka_groups.maintenance.backup_file import load_backup
        from airflow_kafka_groups.maintenance.plan import check_digest, load_plan

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
        # A dry run may be asked for before there is a backup.
        without = dry_run and not layout.backup_manifest(self.plan.plan_id).exists()
        self.backup = None if without else load_backup(layout, self.plan.plan_id)

    async def delete(self, admin: AdminClient) -> DeletionReport:
        from airflow_kafka_groups.maintenance.deletion import delete_planned

        assert self.plan is not None  # noqa: S101 - set by the constructor
        return await delete_planned(
            admin,
            self.plan,
            self.backup,
            dry_run=self.dry_run,
            approved_digest=self.digest,
            options=self.operator.options(self),
        )


class _ExplicitRun(_Run):
    def __init__(self, operator: DeleteGroupsOperator, layout: Layout, dry_run: bool) -> None:
        from airflow_kafka_groups.hooks.arguments import read_group_ids, read_number

        super().__init__(operator, layout, dry_run)
        self.wanted, duplicates = read_group_ids(operator.group_ids)
        if duplicates:
            raise ConfigurationError("group_ids", operator.group_ids, f"names {duplicates} group(s) twice: check it")
        self.observe_seconds = read_number("observe_seconds", operator.observe_seconds)

    async def delete(self, admin: AdminClient) -> DeletionReport:
        from airflow_kafka_groups.maintenance.explicit import delete_explicit
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
            protected=(*DEFAULT_PROTECTED, *self.operator.hook.settings.protected_groups),
            layout=self.layout,
            options=self.operator.options(self),
        )


def _actor(context: Context) -> dict[str, str]:
    run = context.get("dag_run")
    task = context.get("ti")
    found = {
        "dag_id": getattr(task, "dag_id", None),
        "run_id": context.get("run_id"),
        "task_id": getattr(task, "task_id", None),
        "try_number": getattr(task, "try_number", None),
        "triggered_by": getattr(run, "triggering_user_name", None),
    }
    return {name: str(value) for name, value in found.items() if value is not None}
