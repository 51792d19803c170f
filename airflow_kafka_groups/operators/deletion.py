"""Delete groups: those of a plan, or those named by hand. Every doubt keeps a group, every run leaves a record."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.exceptions import (
    ConfigurationError,
    GroupsFailedError,
    KafkaGroupsError,
    LeaseLostError,
    LeaseNotAcquiredError,
    MaintenanceError,
)
from airflow_kafka_groups.hooks.argument_validation import Argument
from airflow_kafka_groups.hooks.arguments import (
    one_of,
    optional,
    read_flag,
    read_group_ids_once,
    read_integer,
    read_number,
    read_switch,
    read_text,
)
from airflow_kafka_groups.links import CleanupReportLink
from airflow_kafka_groups.operators.support.approval_rules import RULES
from airflow_kafka_groups.operators.support.base import StoredOperator, first_failures
from airflow_kafka_groups.operators.support.deletion_lease import IF_HELD, MAX_WAIT_SECONDS, owner_name, read_terms

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_kafka_groups.maintenance.deletion.outcomes import DeletionReport
    from airflow_kafka_groups.maintenance.deletion.planned import DeletionOptions
    from airflow_kafka_groups.maintenance.deletion.verify import Verification
    from airflow_kafka_groups.maintenance.storage import StoragePath
    from airflow_kafka_groups.operators.support.deletion_runs import Run


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
    :param approval_rule: with ``plan_id``: ``"always"``: a human has to have approved it; ``"above_cap"``: when it has
        more than ``approve_above`` groups; ``"never"`` (default) (templated).
    :param approve_above: the most groups that ``"above_cap"`` lets pass, default 100 (templated).
    :param approval: the answer that ``ApproveCleanupOperator`` returned, also as JSON text (templated).
    :param group_ids: the groups to delete by name; or ``plan_id``. A duplicate is an error (templated).
    :param ignore_missing: with ``group_ids``: groups that do not exist are fine; default false: the task fails before
        anything is deleted.
    :param observe_seconds: with ``group_ids``: how long they are watched, in seconds, default 10 (templated).
    :param allow_hidden_topics: with ``group_ids``: delete also where the connection's user may not describe all topics,
        so that groups may have offsets that it does not see; default false (templated). A plan has its own.
    :param dry_run: do everything except for deleting; default false (templated).
    :param lease: delete only while this run holds the cluster's lease, which one run has at a time; default true. A dry
        run needs none (templated).
    :param lease_wait_seconds: how long a lease that another run holds is waited for, default 60 (templated).
    :param if_lease_held: what to do when another run still holds it then: ``"skip"`` the task (default) or ``"fail"``
        (templated).
    :param fail_if_kept: fail the task when a group was kept. Default: true for ``group_ids``, false for a plan.
    :param kafka_groups_conn_id: the connection, default ``kafka_groups_default`` (templated).

    Returns ``{"audit_path", "dry_run", "counts", "kept_reasons", "kept": {group: reason}, "verification", …}`` with the
    first 20 kept groups. Fails before anything is deleted when the connection is read-only, the plan is of another
    cluster, was changed, is not approved, has expired or names a protected group, or a broker did not answer the
    listing. Fails after writing the record when a group could not be deleted, nobody knows whether it was, or the lease
    was lost on the way: the groups that were left are kept.
    """

    template_fields: Sequence[str] = (
        *StoredOperator.template_fields,
        "plan_id",
        "plan_digest",
        "approval_rule",
        "approve_above",
        "approval",
        "group_ids",
        "observe_seconds",
        "allow_hidden_topics",
        "dry_run",
        "lease",
        "lease_wait_seconds",
        "if_lease_held",
    )
    operator_extra_links = (CleanupReportLink(),)
    ui_color = "#f0d4d4"

    plan_id = Argument(optional(read_text))
    plan_digest = Argument(optional(read_text))
    approval_rule = Argument(one_of(*RULES))
    approve_above = Argument(read_integer)
    group_ids = Argument(optional(read_group_ids_once))
    ignore_missing = Argument(read_switch, templated=False)
    observe_seconds = Argument(partial(read_number, maximum=86_400))
    allow_hidden_topics = Argument(read_flag)
    # Hides BaseOperator.dry_run(), which Airflow 3 calls nowhere; the word is the one people look for.
    dry_run = Argument(read_flag)  # type: ignore[assignment]
    lease = Argument(read_flag)
    lease_wait_seconds = Argument(partial(read_number, maximum=MAX_WAIT_SECONDS))
    if_lease_held = Argument(one_of(*IF_HELD))
    fail_if_kept = Argument(optional(read_switch), templated=False)

    def __init__(
        self,
        *,
        plan_id: str | None = None,
        plan_digest: str | None = None,
        approval_rule: str = "never",
        approve_above: int | str = 100,
        approval: Mapping[str, Any] | str | None = None,
        group_ids: Sequence[str] | str | None = None,
        ignore_missing: bool = False,
        observe_seconds: float | str = 10,
        allow_hidden_topics: bool | str = False,
        dry_run: bool | str = False,
        lease: bool | str = True,
        lease_wait_seconds: float | str = 60,
        if_lease_held: str = "skip",
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
        self.approval_rule = approval_rule
        self.approve_above = approve_above
        self.approval = approval
        self.group_ids = group_ids
        self.ignore_missing = ignore_missing
        self.observe_seconds = observe_seconds
        self.allow_hidden_topics = allow_hidden_topics
        self.dry_run = dry_run
        self.lease = lease
        self.lease_wait_seconds = lease_wait_seconds
        self.if_lease_held = if_lease_held
        self.fail_if_kept = fail_if_kept
        self._stopped = False

    def on_kill(self) -> None:
        """Begin no further chunk."""
        self._stopped = True

    def execute(self, context: Context) -> dict[str, Any]:
        """Delete with one client, look again, write the record."""
        from airflow.sdk.exceptions import AirflowSkipException

        from airflow_kafka_groups.contracts.ids import new_id
        from airflow_kafka_groups.maintenance.deletion.audit import audit_record, write_audit
        from airflow_kafka_groups.maintenance.plan.deletion_plan import load_plan
        from airflow_kafka_groups.maintenance.storage import utc_now
        from airflow_kafka_groups.operators.support.deletion_runs import ExplicitRun, PlannedRun
        from airflow_kafka_groups.operators.support.telemetry import emit_deletion

        dry_run = self.dry_run
        terms = read_terms(self, dry_run)
        layout = self.layout()
        if not dry_run:
            self.hook.settings.require_writable()
        run = PlannedRun(self, layout, dry_run) if self.group_ids is None else ExplicitRun(self, layout, dry_run)
        if terms is not None:
            owner = owner_name(_actor(context), self.hook.client_config().client_id)
            run.take_lease = lambda: self.hook.lease(owner=owner, wait_seconds=terms.wait_seconds)

        run_id = new_id(utc_now())
        begun: StoragePath | None = None

        def record(report: DeletionReport, verification: Verification | None) -> str:
            nonlocal begun
            plan = load_plan(layout, report.plan_id) if report.plan_id else None
            entry = audit_record(
                report,
                run_id=run_id,
                plan=plan,
                verification=verification,
                actor={**_actor(context), **run.approved()},
                kafka_cluster_id=run.kafka_cluster_id,
            )
            try:
                begun = write_audit(layout, entry, begun=begun)
            except (OSError, MaintenanceError):
                self._log_record(entry)
                raise
            return str(begun)

        run.record = record
        try:
            with run.recorded_if_interrupted():
                report, verification = self.hook.run(run.delete_and_verify)
        except LeaseNotAcquiredError as error:
            if terms is None or not terms.skip:
                raise
            raise AirflowSkipException(f"Another cleanup is under way: {error}. Nothing was deleted") from None
        audit_path = record(report, verification)
        emit_deletion(self, context, report, audit_path)
        return self._finish(report, verification, audit_path)

    def _log_record(self, entry: Mapping[str, Any]) -> None:
        """Log what the record would have said: what was deleted must be known, also when the storage has failed."""
        outcomes = entry["outcomes"]
        self.log.error("The record could not be written: %s", json.dumps({**entry, "outcomes": len(outcomes)}))
        for start in range(0, len(outcomes), 100):
            self.log.error("Not recorded: %s", json.dumps(outcomes[start : start + 100]))

    def options(self, run: Run) -> DeletionOptions:
        """Say how the deletion goes about it."""
        from airflow_kafka_groups.maintenance.deletion.planned import DeletionOptions

        return DeletionOptions(
            progress=self.log_progress,
            before=run.begin,
            on_chunk=run.note,
            stop=lambda: self._stopped,
            lease=run.lease,
        )

    def _finish(self, report: DeletionReport, verification: Verification | None, audit_path: str) -> dict[str, Any]:
        from airflow_kafka_groups.maintenance.deletion.outcomes import Outcome

        counts = ", ".join(f"{name} {count}" for name, count in report.counts.items() if count)
        self.log.info("%s: %s; recorded in %s", "Dry run" if report.dry_run else "Deletion", counts, audit_path)
        for warning in report.warnings:
            self.log.warning("%s", warning)
        if report.lease is not None and report.lease.lost is not None:
            raise LeaseLostError(report.lease.group_id, f"{report.lease.lost}. {counts}; recorded in {audit_path}")
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
