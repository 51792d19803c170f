"""Delete groups: those of a plan, or those that are named. Every doubt keeps a group, every run leaves a record."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import Context

from airflow_kafka_groups.exceptions import (
    ConfigurationError,
    GroupsFailedError,
    KafkaGroupsError,
    LeaseLostError,
    LeaseNotAcquiredError,
    QuietTimeError,
)
from airflow_kafka_groups.hooks.airflow_lookups import STOP_VARIABLE, why_variable_stops
from airflow_kafka_groups.hooks.argument_validation import Argument
from airflow_kafka_groups.hooks.arguments import (
    one_of,
    optional,
    read_duration,
    read_flag,
    read_group_ids_once,
    read_integer,
    read_number,
    read_text,
    read_type_names,
)
from airflow_kafka_groups.hooks.links import CleanupReportLink
from airflow_kafka_groups.ledger.approval_rules import RULES, ApprovalTerms
from airflow_kafka_groups.operators.support.base import (
    FIRST_FAILURES,
    DryRunOperator,
    actor_of,
    every_mapped_run_of,
    first_failures,
    gauges,
    update_asset_events,
)
from airflow_kafka_groups.shown import one_line

if TYPE_CHECKING:
    from datetime import datetime

    from airflow_kafka_groups.change.deletion.request import DeletionLimits
    from airflow_kafka_groups.change.deletion.run import DeletionResult
    from airflow_kafka_groups.hooks.cluster import Deletion
    from airflow_kafka_groups.ledger.outcomes import GroupOutcome

_LOGGED_AT_ONCE = 100


class _DeletingOperator(DryRunOperator):
    """The base class of operators that delete under the lease, and record it in the journal.

    :param approval_rule: of a plan: ``"always"``: a human has to have approved it; ``"above_cap"``: when it has more
        than ``approve_above`` groups, or topics; ``"never"`` (default).
    :param approve_above: the most groups, or topics, that ``"above_cap"`` lets pass. Default 100.
    :param lease: delete only while this run holds the cluster's lease, which one run has at a time, of groups or of
        topics: it needs READ on the group ``airflow-kafka-groups-lease``, with the connection's prefix. A dry run needs
        none. Default true.
    :param lease_wait_seconds: how long another run's lease is waited for, such as ``"5min"``, or seconds. Default 60.
    :param stop_variable: an Airflow Variable that stops the deletion before its next intent, unless it does not exist
        or says no (``"false"``, ``"no"``, ``"off"``, ``"0"``, ``""``); ``None`` looks at none. Default
        ``"kafka_groups_stop"``.
    """

    approval_rule = Argument(one_of(*RULES))
    approve_above = Argument(read_integer)
    counter: ClassVar[str] = "deletion"
    """The first name of the metrics that count what became of groups."""

    lease = Argument(read_flag)
    lease_wait_seconds = Argument(partial(read_duration, maximum=86_400))
    stop_variable = Argument(optional(read_text))

    def __init__(
        self,
        *,
        approval_rule: str = "never",
        approve_above: int | str = 100,
        lease: bool | str = True,
        lease_wait_seconds: float | str | timedelta = 60,
        stop_variable: str | None = STOP_VARIABLE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stopped = False

    def on_kill(self) -> None:
        """Begin no further chunk."""
        self.stopped = True

    def why_stop(self) -> str | None:
        """Return why the deletion is to stop: the task is being killed, or the Airflow Variable says so."""
        return "the task is being killed" if self.stopped else why_variable_stops(self.stop_variable)

    def by_plan(self, plan_id: str, plan_digest: str | None, *, prunes: bool = False) -> Deletion:
        """Return what deletes what a plan names, within the site's limits; its policy file is read before."""
        from airflow_kafka_groups.checks import check_digest
        from airflow_kafka_groups.hooks.cluster import deletion_by_plan

        layout, floors, digest = self.layout(), self.floors(), check_digest("plan_digest", plan_digest)
        terms = ApprovalTerms(rule=self.approval_rule, approve_above=self.approve_above)
        return deletion_by_plan(layout, floors, plan_id, digest, terms, prunes=prunes)

    def carry_out_deletion(self, context: Context, deletion: Deletion, limits: DeletionLimits) -> DeletionResult:
        """Delete with one client.

        Raises ``AirflowSkipException`` if another run holds the lease, or in a quiet time of the policy;
        ``TaskDeferred`` if the plan is still valid at the end of that time.
        """
        from airflow.sdk.exceptions import AirflowSkipException

        from airflow_kafka_groups.change.deletion.request import DeletionObserver

        actor = actor_of(context)
        observer = DeletionObserver(
            progress=self.log_progress,
            concluded=self._log_chunk,
            warning=partial(self.log.warning, "%s"),
            not_recorded=self._log_record,
            notice=partial(self.log.info, "%s"),
            why_stop=self.why_stop,
        )
        try:
            return self.hook.delete(
                deletion,
                request_id=every_mapped_run_of(actor),
                dry_run=self.dry_run,
                actor=actor,
                owner=_owner_name(actor, self.hook.client_config().client_id) if self.lease else None,
                lease_wait_seconds=self.lease_wait_seconds,
                observer=observer,
                limits=limits,
            )
        except LeaseNotAcquiredError as error:
            raise AirflowSkipException(f"Another clean-up is in progress: {error}. Nothing was deleted") from None
        except QuietTimeError as error:
            if error.until is not None:
                self._defer_until(error.until, str(error))
            raise AirflowSkipException(f"{error}. Nothing was deleted") from None

    def _defer_until(self, moment: datetime, why: str) -> None:
        """Free the worker until then; all checks are made again afterwards."""
        from airflow.providers.standard.triggers.temporal import DateTimeTrigger

        from airflow_kafka_groups.storage.layout import utc_now
        from airflow_kafka_groups.triggers.poll import FIRST_POLL_AFTER

        self.log.info("Waiting: %s", why)
        moment = max(moment, utc_now() + timedelta(seconds=FIRST_POLL_AFTER))  # Airflow may lose one that fires sooner
        self.defer(trigger=DateTimeTrigger(moment=moment), method_name="execute_after_quiet_time")

    def execute(self, context: Context) -> dict[str, Any]:
        return self.delete(context)

    def execute_after_quiet_time(self, context: Context, event: Any = None) -> dict[str, Any]:
        """Begin again when the quiet time is over."""
        return self.delete(context)  # Airflow refuses an execute() that another method calls

    def delete(self, context: Context) -> dict[str, Any]:
        """Delete, and return the summary of the record."""
        raise NotImplementedError

    def count(self, counts: Mapping[str, int], dry_run: bool) -> None:
        """Add what became of groups, or topics, to the counters; a dry run counts nothing."""
        if not dry_run:
            gauges(self.cluster_name, {f"{self.counter}.{name}": n for name, n in counts.items() if n}, kind="incr")

    def _log_chunk(self, outcomes: Sequence[GroupOutcome]) -> None:
        counts = Counter(item.outcome.value for item in outcomes)
        self.log.info("%s", ", ".join(f"{name} {count}" for name, count in counts.items()))
        for item in outcomes[:FIRST_FAILURES]:
            self.log.info("%s: %s (%s)", item.outcome.value, one_line(item.group_id), item.reason)

    def _log_record(self, record: Mapping[str, Any]) -> None:
        """Log and count a record that the storage refused: what was deleted must be known."""
        outcomes = record["outcomes"]
        self.log.error("The record could not be written: %s", json.dumps({**record, "outcomes": len(outcomes)}))
        for start in range(0, len(outcomes), _LOGGED_AT_ONCE):
            self.log.error("Not recorded: %s", json.dumps(outcomes[start : start + _LOGGED_AT_ONCE]))
        self.count(record["counts"], record["dry_run"])

    def conclude(
        self, context: Context, result: DeletionResult, what: str, *, fail_if_kept: bool = False, **facts: int
    ) -> dict[str, Any]:
        """Count and log a run, and return the summary of its record with the first of what was kept.

        Raises ``LeaseLostError`` if the lease was lost on the way, ``KafkaGroupsError`` if the task was killed before
        it was done, and ``GroupsFailedError``.
        """
        from airflow_kafka_groups.ledger.outcomes import Outcome, Reason

        report, record = result.report, str(result.record)
        self.count(report.counts, report.dry_run)
        asked = {"plan_id": report.plan_id, "dry_run": report.dry_run, "audit_path": record}
        update_asset_events(self, context, {**asked, **facts, **report.counts})
        counts = ", ".join(f"{name} {count}" for name, count in report.counts.items() if count) or "no groups"
        self.log.info("%s: %s; recorded in %s", "Dry run" if report.dry_run else what, counts, record)
        for warning in report.warnings:
            self.log.warning("%s", warning)
        if report.lease is not None and report.lease.lost is not None:
            raise LeaseLostError(report.lease.group_id, f"{report.lease.lost}. {counts}; recorded in {record}")
        if self.stopped and (left := report.kept_reasons.get(Reason.STOPPED.value)):  # Airflow believes what it gets
            of = len(report.outcomes)
            why = f"{left} of {of} are left for another try; recorded in {record}"
            raise KafkaGroupsError(f"the task was killed: {why}")
        reasons = {item.group_id: item.reason for item in report.outcomes}
        kept = report.ids(Outcome.KEPT)
        failed = [*report.ids(Outcome.FAILED, Outcome.UNKNOWN), *(kept if fail_if_kept else ())]
        if failed:
            raise GroupsFailedError({name: KafkaGroupsError(reasons[name]) for name in failed}, len(report.outcomes))
        found, names = result.verification, ("gone", "present", "unclear")
        return {
            **report.summary(),
            "audit_path": record,
            "kept": first_failures({name: reasons[name] for name in kept}),
            "verification": None if found is None else {name: len(getattr(found, name)) for name in names},
            **facts,
        }


def _owner_name(actor: Mapping[str, str], client_id: str) -> str:
    task = ".".join(actor[name] for name in ("dag_id", "task_id") if name in actor) or "a run outside of Airflow"
    run = f", run {actor['run_id']}" if "run_id" in actor else ""
    return f"{task}{run}, on {socket.gethostname()}, client id {client_id}"


class DeleteGroupsOperator(_DeletingOperator):
    """Delete the groups of a plan, or named groups, if they are empty and have not moved.

    Each group is read again a moment before it is deleted: one that has members, is not empty, moved since the plan (or
    while it was watched), was deleted or found in use before, is not backed up, or cannot be read is kept. By plan, the
    backup must have been made (``BackupGroupOffsetsOperator``); named groups are watched for a while and backed up
    here. The journal has the intent to delete before a request leaves, and the outcome after it, so a task that is
    killed and cleared deletes no group twice. What was deleted is looked for once more. In quiet hours and on holidays
    of the policy, a task waits without a worker for their end, and is skipped if the plan does not last that long.

    :param plan_id: the plan to apply; or ``group_ids``.
    :param plan_digest: with ``plan_id``: its digest as ``PlanCleanupOperator`` returned it.
    :param group_ids: the groups to delete by name; or ``plan_id``. A duplicate is an error.
    :param ignore_missing: with ``group_ids``: groups that do not exist are fine. Default false: it fails before
        anything is deleted, unless earlier tries of it deleted them, or found them gone (not templated).
    :param observe_seconds: with ``group_ids``: how long they are watched, such as ``"5min"``, or seconds. Default 60.
    :param types: with ``group_ids``: ``share`` or ``streams``, whose groups are kept otherwise. Default: none.
    :param ignore_signs_of_life: with ``group_ids``: delete also groups that somebody saw alive within the site's least
        idle time, or a day where it has none. Default false.
    :param allow_hidden_topics: with ``group_ids``: delete also where the connection's user may not describe all topics,
        so that groups may have offsets that it does not see. A plan has its own. Default false.
    :param dry_run: make the checks of each group and delete nothing. Default false.
    :param groups_per_second: the most groups deleted a second on average, to spare brokers; 0: no limit. Default 0.
    :param bytes_per_second: the most bytes a second that brokers write for it, before replication and estimated from
        the number of offsets; 0 for no limit. Default 0.
    :param fail_if_kept: fail if a group was kept. Default: true for ``group_ids``, false for a plan (not templated).

    Returns ``{"audit_path", "dry_run", "counts", "kept_reasons", "kept": {group: reason}, "verification", …}`` with the
    first 20 kept groups. Fails before anything is deleted when the connection is read-only, the plan is of another
    cluster, was changed, is not approved, has expired or names a protected group, or a broker did not answer the
    listing. Fails after writing the record when a group could not be deleted, nobody knows whether it was, the lease
    was lost on the way, or the task was killed: the groups that were left are kept.
    """

    operator_extra_links = (CleanupReportLink(),)
    plan_id = Argument(optional(read_text))
    plan_digest = Argument(optional(read_text))
    group_ids = Argument(optional(read_group_ids_once))
    ignore_missing = Argument(read_flag, templated=False)
    observe_seconds = Argument(partial(read_duration, maximum=86_400))
    types = Argument(read_type_names)
    ignore_signs_of_life = Argument(read_flag)
    allow_hidden_topics = Argument(read_flag)
    groups_per_second = Argument(read_number)
    bytes_per_second = Argument(read_number)
    fail_if_kept = Argument(optional(read_flag), templated=False)

    def __init__(
        self,
        *,
        plan_id: str | None = None,
        plan_digest: str | None = None,
        group_ids: Sequence[str] | str | None = None,
        ignore_missing: bool = False,
        observe_seconds: float | str = 60,
        types: Sequence[str] | str = (),
        ignore_signs_of_life: bool | str = False,
        allow_hidden_topics: bool | str = False,
        groups_per_second: float | str = 0,
        bytes_per_second: float | str = 0,
        fail_if_kept: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if (plan_id is None) == (group_ids is None):
            raise ConfigurationError("plan_id, group_ids", None, "give exactly one of them")
        if (plan_id is None) != (plan_digest is None):
            raise ConfigurationError("plan_digest", plan_digest, "belongs to plan_id: give both or none")

    def delete(self, context: Context) -> dict[str, Any]:
        from airflow_kafka_groups.change.deletion.request import DeletionLimits

        if self.plan_id is None:
            deletion = self.hook.deletion_by_name(self.layout(), self.floors(), self)
        else:
            deletion = self.by_plan(self.plan_id, self.plan_digest)
        limits = DeletionLimits(
            groups_per_second=self.groups_per_second or None, bytes_per_second=self.bytes_per_second or None
        )
        result = self.carry_out_deletion(context, deletion, limits)
        fail_if_kept = self.group_ids is not None if self.fail_if_kept is None else self.fail_if_kept
        return self.conclude(context, result, "Deletion", fail_if_kept=fail_if_kept)
