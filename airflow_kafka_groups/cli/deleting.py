"""What the commands have in common that delete: their arguments, how they are stopped, and their exit code."""

from __future__ import annotations

import argparse
import json
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.change.deletion.request import DeletionLimits, DeletionObserver, DeletionRequest, no_lease
from airflow_kafka_groups.checks import check_digest
from airflow_kafka_groups.cli.connection import Cluster, actor, use_airflow_database
from airflow_kafka_groups.cli.options import add_value
from airflow_kafka_groups.cli.output import Output, Table, progress_bars, say
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.airflow_lookups import STOP_VARIABLE, why_variable_stops
from airflow_kafka_groups.hooks.arguments import read_duration, read_text

if TYPE_CHECKING:
    from airflow_kafka_groups.change.deletion.run import DeletionResult
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient
    from airflow_kafka_groups.ledger.outcomes import DeletionReport

_OUTCOME = ("outcome", "code", "reason")
_MAX_WAIT_SECONDS = 86_400.0


def add_deletion_arguments(parser: ArgumentTarget) -> None:
    """Add what every deletion by plan has."""
    shown = "the plan's digest, as it was shown; --yes requires it"
    parser.add_argument("--digest", dest="plan_digest", metavar="SHA256", read=check_digest, help=shown)
    add_stopping_arguments(parser)


def add_stopping_arguments(parser: ArgumentTarget) -> None:
    """Add what every deletion has."""
    parser.add_argument("--yes", action="store_true", help="delete; without it, only show what would be deleted")
    add_value(parser, "lease_wait_seconds", default=60.0, read=partial(read_duration, maximum=_MAX_WAIT_SECONDS))
    parser.add_argument("--stop-variable", metavar="NAME", default=STOP_VARIABLE, read=read_text)


def require_allowed(args: argparse.Namespace, cluster: Cluster) -> None:
    """Raise unless the arguments and the connection allow to delete, or it is a dry run."""
    if args.yes:
        cluster.settings.require_writable()
        if getattr(args, "plan_digest", "") is None:
            raise ConfigurationError("--digest", None, "--yes requires it: the plan that you looked at is applied")


def run_deletion(
    args: argparse.Namespace,
    cluster: Cluster,
    limits: DeletionLimits,
    delete: Callable[[MaintenanceClient, DeletionRequest], Awaitable[DeletionResult]],
    *,
    command: str,
    request_id: str,
    leased: bool = True,
) -> DeletionResult:
    """Delete, until it is done, interrupted, or stopped by the Airflow Variable.

    :param request_id: what all tries of the deletion have in common: a plan's id.
    :param leased: whether it takes the cluster's lease; a dry run does not. Default true.
    """
    who = actor(command)
    owner = f"the command {command!r} of {who['user']}, on {who['host']}"
    lease = partial(cluster.lease, owner=owner, wait_seconds=args.lease_wait_seconds)
    with progress_bars() as progress, _stoppable(args.stop_variable if args.yes else None) as stoppable:
        request = DeletionRequest(
            request_id=request_id,
            dry_run=not args.yes,
            actor=who,
            protects=cluster.settings.protects,
            lease=lease if leased and args.yes else no_lease,
            lease_group_id=cluster.settings.lease_group_id,
            observer=DeletionObserver(
                progress=progress,
                warning=lambda text: say(f"warning: {text}"),
                not_recorded=lambda record: say(
                    f"error: the record could not be written; keep it: {json.dumps(record)}"
                ),
                notice=say,
                why_stop=stoppable.why_stop,
            ),
            limits=limits,
        )
        return cluster.run(lambda admin: delete(admin, request))


def to_delete(digest: str) -> str:
    """Return what a dry run says at its end: the options of the user, such as a rule to approve, remain."""
    return f"Nothing was deleted. To delete, run the same command with: --digest {digest} --yes"


def show_outcomes(
    out: Output, result: DeletionResult, cluster: Cluster, next_step: str, *, of: str = "group_id"
) -> ExitCode:
    """Show the outcome of each group or topic, and say what comes next.

    :param next_step: what a dry run says at its end.
    :param of: the name of the first column. Default ``group_id``.
    """
    from airflow_kafka_groups.ledger.outcomes import Outcome

    report = result.report
    summary = {**report.summary(), "record": str(result.record)}
    if result.verification is not None:
        summary["verification"] = result.verification.to_json()
    rows = [(item.group_id, item.outcome.value, item.code, item.reason) for item in report.outcomes]
    try:
        out.write(Table("outcomes", (of, *_OUTCOME), rows), summary)
    finally:  # also where nobody reads stdout, or its disk is full
        if report.dry_run:
            say(next_step)
        elif report.ids(Outcome.DELETED) and report.plan_id is not None:
            undo = cluster.command("restore", report.plan_id)
            say(f"To undo it, while the groups have no members, begin with the dry run: {undo}")
    return exit_code(report)


def exit_code(report: DeletionReport) -> ExitCode:
    """Return what a run's record means for the caller. Something that is kept is ``INCOMPLETE``."""
    from airflow_kafka_groups.ledger.outcomes import Outcome

    lost = report.lease is not None and report.lease.lost is not None
    if lost or report.ids(Outcome.FAILED, Outcome.UNKNOWN):
        return ExitCode.FAILED
    return ExitCode.INCOMPLETE if report.ids(Outcome.KEPT) else ExitCode.DONE


class Stoppable:
    """A deletion that an interrupt stops, or an Airflow Variable.

    :param variable: the Airflow Variable; ``None`` looks at none.
    """

    def __init__(self, variable: str | None) -> None:
        self._variable = variable
        self.interrupted = False

    def interrupt(self, *signal_and_frame: Any) -> None:
        """Begin no further chunk. A second interrupt ends the process: the journal has what was intended."""
        if self.interrupted:
            raise KeyboardInterrupt
        self.hang_up()

    def hang_up(self, *signal_and_frame: Any) -> None:
        """Begin no further chunk. A terminal that closes may say so twice."""
        if not self.interrupted:
            self.interrupted = True
            say("interrupted: remaining groups are kept; finishing the record")

    def why_stop(self) -> str | None:
        """Return why the deletion is to stop."""
        return "it was interrupted" if self.interrupted else why_variable_stops(self._variable)


@contextmanager
def _stoppable(variable: str | None) -> Iterator[Stoppable]:
    """Provide what SIGINT, SIGTERM and a terminal that closes (SIGHUP) stop."""
    if variable is not None:
        use_airflow_database()
    stoppable = Stoppable(variable)
    handlers = {
        signal.SIGINT: stoppable.interrupt,
        signal.SIGTERM: stoppable.interrupt,
        signal.SIGHUP: stoppable.hang_up,
    }
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # as nohup asks for
        del handlers[signal.SIGHUP]
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield stoppable
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
