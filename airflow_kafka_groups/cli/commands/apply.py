"""Delete the groups of a plan: with every check, guard and record that the clean-up in Airflow has.

A dry run, unless ``--yes`` is given. Where the site or the option ``--approval-rule`` demands a person's approval, only
one that was given in Airflow counts.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.cli.connection import Cluster, actor, add_storage_arguments
from airflow_kafka_groups.cli.messages import Progress, progress_bars, say
from airflow_kafka_groups.cli.options import add_value
from airflow_kafka_groups.cli.output import Output, Table
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError
from airflow_kafka_groups.hooks.arguments import read_duration, read_integer, read_number
from airflow_kafka_groups.maintenance.deletion.approval.rules import NEVER, RULES, ApprovalTerms
from airflow_kafka_groups.maintenance.deletion.request import (
    DeletionLimits,
    DeletionObserver,
    DeletionRequest,
    no_lease,
)

if TYPE_CHECKING:
    from airflow_kafka_groups.maintenance.deletion.sealed_run import DeletionResult
    from airflow_kafka_groups.maintenance.plan.deletion_plan import DeletionPlan
    from airflow_kafka_groups.maintenance.storage import Layout

COLUMNS = ("group_id", "outcome", "code", "reason")
_MAX_WAIT_SECONDS = 86_400.0


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    add_storage_arguments(parser)
    parser.add_argument("plan_id", metavar="PLAN", help="the plan's id")
    parser.add_argument("--yes", action="store_true", help="delete; without it, only show what would be deleted")
    parser.add_argument("--digest", metavar="SHA256", help="the plan's digest, as plan showed it; --yes requires it")
    parser.add_argument(
        "--approval-rule",
        choices=RULES,
        default=NEVER,
        help="when a person has to have approved the plan in Airflow, beside what the site demands (default: never)",
    )
    parser.add_argument("--approve-above", metavar="N", default="100", help="the number of 'above_cap' (default: 100)")
    add_value(parser, "lease_wait_seconds", "wait for another run's lease (default: 1min)", "1min")
    parser.add_argument("--no-lease", action="store_true", help="do not take the cluster's lease")
    parser.add_argument("--groups-per-second", metavar="N", default="0", help="most deletions (default: no limit)")
    parser.add_argument("--bytes-per-second", metavar="N", default="0", help="most bytes written (default: no limit)")
    parser.add_argument(
        "--stop-variable",
        metavar="NAME",
        default="kafka_groups_stop",
        help="the Airflow Variable that stops deletions (default: kafka_groups_stop)",
    )


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Delete the plan's groups, and show the outcome of each. A group that is kept makes the exit code 3."""
    from airflow_kafka_groups.hooks.storage import policy_reader
    from airflow_kafka_groups.maintenance.checks import check_digest
    from airflow_kafka_groups.maintenance.deletion.service import delete_by_plan
    from airflow_kafka_groups.maintenance.plan.deletion_plan import load_plan

    cluster = Cluster(args)
    settings, layout = cluster.settings, cluster.layout()
    terms = ApprovalTerms(rule=args.approval_rule, approve_above=read_integer("--approve-above", args.approve_above))
    if args.yes:
        settings.require_writable()
        if args.digest is None:
            raise ConfigurationError("--digest", None, "--yes requires it: the plan that you looked at is deleted")
    floors = cluster.floors()
    plan = load_plan(layout, args.plan_id)
    policy = policy_reader(layout, args.plan_id)
    digest = plan.digest if args.digest is None else check_digest("--digest", args.digest)
    with progress_bars() as progress, stoppable(args.stop_variable if args.yes else None, progress) as observer:
        request = _request(args, cluster, observer)
        result = cluster.run(
            lambda admin: delete_by_plan(
                admin, layout, args.plan_id, digest, request, approval=terms, floors=floors, policy=policy
            )
        )
    return _show(out, layout, plan, result)


def _request(args: argparse.Namespace, cluster: Cluster, observer: DeletionObserver) -> DeletionRequest:
    wait_seconds = read_duration("--lease-wait", args.lease_wait_seconds, maximum=_MAX_WAIT_SECONDS)
    without = args.no_lease or not args.yes
    return DeletionRequest(
        request_id=args.plan_id,
        dry_run=not args.yes,
        actor=actor("apply"),
        protects=cluster.settings.protects,
        lease=no_lease if without else partial(cluster.lease, command="apply", wait_seconds=wait_seconds),
        lease_group_id=cluster.settings.lease_group_id,
        observer=observer,
        limits=DeletionLimits(
            groups_per_second=read_number("--groups-per-second", args.groups_per_second) or None,
            bytes_per_second=read_number("--bytes-per-second", args.bytes_per_second) or None,
        ),
    )


def _show(out: Output, layout: Layout, plan: DeletionPlan, result: DeletionResult) -> ExitCode:
    from airflow_kafka_groups.maintenance.deletion.outcomes import Outcome
    from airflow_kafka_groups.maintenance.report.write import make_report

    report = result.report
    summary = {**report.summary(), "record": str(result.record)}
    if result.verification is not None:
        summary["verification"] = result.verification.to_json()
    rows = [(item.group_id, item.outcome.value, item.code, item.reason) for item in report.outcomes]
    out.write(Table("outcomes", COLUMNS, rows), summary)
    try:
        say(f"Report: {make_report(layout, plan)[0]}")
    except (KafkaGroupsError, OSError) as error:
        say(f"warning: the report could not be written: {error}")
    if report.dry_run:
        say(f"Nothing was deleted. To delete: apply {plan.plan_id} --digest {plan.digest} --yes")
    elif report.ids(Outcome.DELETED):
        say(f"To undo it: restore {plan.plan_id}")
    lost = report.lease is not None and report.lease.lost is not None
    if lost or report.ids(Outcome.FAILED, Outcome.UNKNOWN):
        return ExitCode.FAILED
    return ExitCode.INCOMPLETE if report.ids(Outcome.KEPT) else ExitCode.DONE


class _Observer(DeletionObserver):
    """Shows a deletion on stderr, and stops it after an interrupt or by an Airflow Variable.

    :param variable: the Airflow Variable; ``None`` looks at none.
    :param progress: draws the bars.
    """

    def __init__(self, variable: str | None, progress: Progress) -> None:
        self._variable = variable
        self._progress = progress
        self.interrupted = False

    def interrupt(self, *signal_and_frame: Any) -> None:
        """Begin no further chunk. A second interrupt ends the process: the journal has what was intended."""
        if self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True
        say("interrupted: the groups that are left are kept; wait for the end of the record")

    def progress(self, stage: str, done: int, total: int) -> None:
        """Draw how far a stage is."""
        self._progress(stage, done, total)

    def warning(self, text: str) -> None:
        """Show what went wrong with the run."""
        say(f"warning: {text}")

    def notice(self, text: str) -> None:
        """Show what is worth a line."""
        say(text)

    def not_recorded(self, record: Mapping[str, Any]) -> None:
        """Show a record that the storage refused: what was deleted must be known."""
        say(f"error: the record could not be written; keep it: {json.dumps(record)}")

    def why_stop(self) -> str | None:
        """Return why the deletion is to stop."""
        from airflow_kafka_groups.operators.support.logged_deletion import why_variable_stops

        return "it was interrupted" if self.interrupted else why_variable_stops(self._variable)


@contextmanager
def stoppable(variable: str | None, progress: Progress) -> Iterator[DeletionObserver]:
    """Provide an observer that SIGINT and SIGTERM stop.

    :param variable: the Airflow Variable that stops it, too; ``None`` looks at none.
    :param progress: draws the bars.
    """
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")  # or Airflow does not read Variables of its database
    observer = _Observer(variable, progress)
    signals: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, observer.interrupt) for number in signals]
    try:
        yield observer
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)
