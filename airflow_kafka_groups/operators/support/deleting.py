"""What operators that delete have in common: the lease, the stop switch, the task's log, and who asks."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_kafka_groups.exceptions import (
    GroupsFailedError,
    KafkaGroupsError,
    LeaseLostError,
    LeaseNotAcquiredError,
    QuietTimeError,
)
from airflow_kafka_groups.hooks.airflow_lookups import STOP_VARIABLE, why_variable_stops
from airflow_kafka_groups.hooks.argument_validation import Argument
from airflow_kafka_groups.hooks.arguments import one_of, optional, read_duration, read_flag, read_integer, read_text
from airflow_kafka_groups.ledger.approval_rules import RULES
from airflow_kafka_groups.operators.support.base import (
    FIRST_FAILURES,
    DryRunOperator,
    actor_of,
    every_mapped_run_of,
    first_failures,
)
from airflow_kafka_groups.shown import one_line

_LOGGED_AT_ONCE = 100


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime

    from airflow.sdk import Context

    from airflow_kafka_groups.change.deletion.request import DeletionLimits, DeletionRequest
    from airflow_kafka_groups.change.deletion.run import DeletionResult
    from airflow_kafka_groups.change.lease import LeaseGuard
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient
    from airflow_kafka_groups.ledger.outcomes import GroupOutcome

    Deletion = Callable[[MaintenanceClient], Awaitable[DeletionResult]]

_MAX_WAIT_SECONDS = 86_400.0


class DeletingOperator(DryRunOperator):
    """The base class of operators that delete under the lease, and record it in the journal.

    :param approval_rule: of a plan: ``"always"``: a human has to have approved it; ``"above_cap"``: when it has more
        than ``approve_above`` groups, or topics; ``"never"`` (default) (templated).
    :param approve_above: the most groups, or topics, that ``"above_cap"`` lets pass. Default 100 (templated).
    :param lease: delete only while this run holds the cluster's lease, which one run has at a time, of groups or of
        topics: it needs READ on the group ``airflow-kafka-groups-lease``, with the connection's prefix. A dry run needs
        none. Default true (templated).
    :param lease_wait_seconds: how long a lease that another run holds is waited for, such as ``"5min"``, or seconds.
        Default 60 (templated).
    :param if_lease_held: what to do when another run still holds it then: ``"skip"`` the task (default) or ``"fail"``
        (templated).
    :param stop_variable: an Airflow Variable that stops the deletion before its next intent, unless it does not exist
        or says no (``"false"``, ``"no"``, ``"off"``, ``"0"``, ``""``); ``None`` looks at none. Default
        ``"kafka_groups_stop"`` (templated).
    :param wait_for_quiet_end: with a plan: wait for the end of the policy's quiet hours or holiday, without a worker,
        if the plan lasts that long. Default false: skip the task (templated).
    """

    ui_color = "#f0d4d4"

    approval_rule = Argument(one_of(*RULES))
    approve_above = Argument(read_integer)
    counter: ClassVar[str] = "deletion"
    """The first name of the metrics that count what became of groups."""

    lease = Argument(read_flag)
    lease_wait_seconds = Argument(partial(read_duration, maximum=_MAX_WAIT_SECONDS))
    if_lease_held = Argument(one_of("skip", "fail"))
    stop_variable = Argument(optional(read_text))
    wait_for_quiet_end = Argument(read_flag)

    def __init__(
        self,
        *,
        approval_rule: str = "never",
        approve_above: int | str = 100,
        lease: bool | str = True,
        lease_wait_seconds: float | str | timedelta = 60,
        if_lease_held: str = "skip",
        stop_variable: str | None = STOP_VARIABLE,
        wait_for_quiet_end: bool | str = False,
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

    def limits(self) -> DeletionLimits:
        """Return the bounds of the deletion."""
        raise NotImplementedError

    def delete_with(self, context: Context, prepare: Callable[[DeletionRequest], Deletion]) -> DeletionResult:
        """Delete with one client.

        :param prepare: returns what to run, given the request.

        Raises ``AirflowSkipException`` if another run holds the lease and ``if_lease_held`` says so, or in a quiet time
        of the policy; ``TaskDeferred`` if ``wait_for_quiet_end`` says so and the plan is still valid at its end.
        """
        from airflow.sdk.exceptions import AirflowSkipException

        if not self.dry_run:
            self.hook.settings.require_writable()
        delete = prepare(self._request(context))
        try:
            result: DeletionResult = self.hook.run(delete)
        except LeaseNotAcquiredError as error:
            if self.if_lease_held != "skip":
                raise
            raise AirflowSkipException(f"Another clean-up is in progress: {error}. Nothing was deleted") from None
        except QuietTimeError as error:
            if self.wait_for_quiet_end and error.until is not None:
                self._defer_until(error.until, str(error))
            raise AirflowSkipException(f"{error}. Nothing was deleted") from None
        return result

    def _defer_until(self, moment: datetime, why: str) -> None:
        """Free the worker until then; all checks are made again afterwards."""
        from airflow.providers.standard.triggers.temporal import DateTimeTrigger

        from airflow_kafka_groups.storage.layout import utc_now
        from airflow_kafka_groups.triggers.poll import FIRST_POLL_AFTER

        self.log.info("Waiting: %s", why)
        moment = max(moment, utc_now() + timedelta(seconds=FIRST_POLL_AFTER))  # Airflow may lose one that fires sooner
        self.defer(trigger=DateTimeTrigger(moment=moment), method_name="execute_after_quiet_time")

    def execute(self, context: Context) -> dict[str, Any]:
        """Delete, and return the summary of the record."""
        return self.delete(context)

    def execute_after_quiet_time(self, context: Context, event: Any = None) -> dict[str, Any]:
        """Begin again when the quiet time is over."""
        return self.delete(context)  # Airflow refuses an execute() that another method calls

    def delete(self, context: Context) -> dict[str, Any]:
        """Delete with one client, and return the summary of the record."""
        raise NotImplementedError

    def count(self, counts: Mapping[str, int], dry_run: bool) -> None:
        """Add what became of groups, or topics, to the counters; a dry run counts nothing."""
        from airflow_kafka_groups.operators.support.telemetry import counters

        if not dry_run:
            counters(self.cluster_name, {f"{self.counter}.{name}": count for name, count in counts.items()})

    def _log_chunk(self, outcomes: Sequence[GroupOutcome]) -> None:
        """Log the counts of a chunk, and its first groups with their reasons; the record has them all."""
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

        :param what: what it was, for people.
        :param fail_if_kept: whether what was kept is a failure. Default false.
        :param facts: more for the asset events and the summary.

        Raises ``LeaseLostError`` if the lease was lost on the way, ``KafkaGroupsError`` if the task was killed before
        it was done, and ``GroupsFailedError``.
        """
        from airflow_kafka_groups.ledger.outcomes import Outcome, Reason
        from airflow_kafka_groups.operators.support.telemetry import update_asset_events

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
            raise KafkaGroupsError(
                f"the task was killed: {left} of {of} are left for another try; recorded in {record}"
            )
        reasons = {item.group_id: item.reason for item in report.outcomes}
        kept = report.ids(Outcome.KEPT)
        failed = [*report.ids(Outcome.FAILED, Outcome.UNKNOWN), *(kept if fail_if_kept else ())]
        if failed:
            raise GroupsFailedError({name: KafkaGroupsError(reasons[name]) for name in failed}, len(report.outcomes))
        return {
            **report.summary(),
            "audit_path": record,
            "kept": first_failures({name: reasons[name] for name in kept}),
            "verification": _verification_counts(result),
            **facts,
        }

    def _request(self, context: Context) -> DeletionRequest:
        from airflow_kafka_groups.change.deletion.request import DeletionObserver, DeletionRequest, no_lease

        actor = actor_of(context)
        lease: Callable[[], AbstractAsyncContextManager[LeaseGuard | None]] = no_lease
        if self.lease and not self.dry_run:
            owner = _owner_name(actor, self.hook.client_config().client_id)
            lease = partial(self.hook.lease, owner=owner, wait_seconds=self.lease_wait_seconds)
        return DeletionRequest(
            request_id=every_mapped_run_of(actor),
            dry_run=self.dry_run,
            actor=actor,
            protects=self.hook.settings.protects,
            lease=lease,
            lease_group_id=self.hook.settings.lease_group_id,
            observer=DeletionObserver(
                progress=self.log_progress,
                concluded=self._log_chunk,
                warning=partial(self.log.warning, "%s"),
                not_recorded=self._log_record,
                notice=partial(self.log.info, "%s"),
                why_stop=self.why_stop,
            ),
            limits=self.limits(),
        )


def _verification_counts(result: DeletionResult) -> dict[str, int] | None:
    found = result.verification
    return None if found is None else {name: len(getattr(found, name)) for name in ("gone", "present", "unclear")}


def _owner_name(actor: Mapping[str, str], client_id: str) -> str:
    """Name a run so that whoever waits for it can find it: DAG, task, run, host and client id."""
    task = ".".join(actor[name] for name in ("dag_id", "task_id") if name in actor) or "a run outside of Airflow"
    run = f", run {actor['run_id']}" if "run_id" in actor else ""
    return f"{task}{run}, on {socket.gethostname()}, client id {client_id}"
