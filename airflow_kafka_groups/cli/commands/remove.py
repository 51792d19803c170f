"""Commands that delete groups, or their offsets of topics, with every check, guard and record of the operators."""

from __future__ import annotations

import argparse
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from airflow_kafka_groups.change.deletion.request import DeletionLimits, DeletionObserver
from airflow_kafka_groups.checks import check_digest
from airflow_kafka_groups.cli import options
from airflow_kafka_groups.cli.output import Output, Table, progress_bars, say
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.airflow_lookups import STOP_VARIABLE, why_variable_stops
from airflow_kafka_groups.hooks.arguments import (
    read_duration,
    read_group_ids_once,
    read_number,
    read_text,
    read_type_names,
)
from airflow_kafka_groups.hooks.cluster import deletion_by_plan
from airflow_kafka_groups.hooks.floors import DEFAULTS, site_defaults
from airflow_kafka_groups.ledger.approval_rules import ABOVE_CAP, NEVER, RULES, ApprovalTerms

if TYPE_CHECKING:
    from airflow_kafka_groups.change.deletion.run import DeletionResult
    from airflow_kafka_groups.hooks.cluster import Deletion

_OUTCOME = ("outcome", "code", "reason")
_SEEN = "--yes requires it: the plan that you looked at is applied"


def _add_deletion_arguments(parser: ArgumentTarget) -> None:
    shown = "the plan's digest, as it was shown; --yes requires it"
    parser.add_argument("--digest", dest="plan_digest", metavar="SHA256", read=check_digest, help=shown)
    _add_stopping_arguments(parser)


def _add_stopping_arguments(parser: ArgumentTarget) -> None:
    parser.add_argument("--yes", action="store_true", help="delete; without it, only show what would be deleted")
    options.add_value(parser, "lease_wait_seconds", default=60.0, read=partial(read_duration, maximum=86_400))
    parser.add_argument("--stop-variable", metavar="NAME", default=STOP_VARIABLE, read=read_text)


def _run_deletion(
    args: argparse.Namespace,
    cluster: options.Cluster,
    limits: DeletionLimits,
    deletion: Deletion,
    *,
    command: str,
    request_id: str,
    leased: bool = True,
) -> DeletionResult:
    """Delete, until it is done, interrupted, or stopped by the Airflow Variable.

    :param request_id: what all tries of the deletion have in common: a plan's id.
    """
    if args.yes and getattr(args, "plan_digest", "") is None:
        raise ConfigurationError("--digest", None, _SEEN)
    who = options.actor(command)
    with progress_bars() as progress, _stoppable(args.stop_variable if args.yes else None) as stoppable:
        observer = DeletionObserver(
            progress=progress,
            warning=lambda text: say(f"warning: {text}"),
            not_recorded=lambda record: say(f"error: the record could not be written; keep it: {json.dumps(record)}"),
            notice=say,
            why_stop=stoppable.why_stop,
        )
        return cluster.delete(
            deletion,
            request_id=request_id,
            dry_run=not args.yes,
            actor=who,
            owner=f"the command {command!r} of {who['user']}, on {who['host']}" if leased else None,
            lease_wait_seconds=args.lease_wait_seconds,
            observer=observer,
            limits=limits,
        )


def _to_delete(digest: str) -> str:
    return f"Nothing was deleted. To delete, run the same command with: --digest {digest} --yes"


def _show_outcomes(
    out: Output, result: DeletionResult, cluster: options.Cluster, next_step: str, *, of: str = "group_id"
) -> ExitCode:
    """Show the outcome of each group or topic, and say what comes next, such as the ``next_step`` of a dry run."""
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
    lost = report.lease is not None and report.lease.lost is not None
    if lost or report.ids(Outcome.FAILED, Outcome.UNKNOWN):
        return ExitCode.FAILED
    return ExitCode.INCOMPLETE if report.ids(Outcome.KEPT) else ExitCode.DONE


class Stoppable:
    """A deletion that an interrupt stops, or an Airflow Variable."""

    def __init__(self, variable: str | None) -> None:
        self._variable = variable
        self.interrupted = False

    def interrupt(self, number: int, frame: Any) -> None:
        """Begin no further chunk. A second interrupt ends the process: the journal has what was intended."""
        if self.interrupted and number != signal.SIGHUP:  # a terminal that closes may say so twice
            raise KeyboardInterrupt
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
        options.use_airflow_database()
    stoppable = Stoppable(variable)
    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # as nohup asks for
    numbers = (signal.SIGINT, signal.SIGTERM, *(() if is_ignored else (signal.SIGHUP,)))
    before = {number: signal.signal(number, stoppable.interrupt) for number in numbers}
    try:
        yield stoppable
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def add_apply(parser: ArgumentTarget) -> None:
    options.add_storage_arguments(parser)
    parser.add_argument("plan_id", metavar="PLAN")
    _add_deletion_arguments(parser)
    parser.add_argument(
        "--approval-rule",
        choices=RULES,
        default=NEVER,
        help="when a person has to have approved the plan in Airflow, beside what the site demands (default: never)",
    )
    options.add_value(parser, "approve_above")
    parser.add_argument("--no-lease", action="store_true", help="do not take the cluster's lease")
    most = "maximum deletions per second (default: the DAGs'; 0: no limit)"
    parser.add_argument("--groups-per-second", metavar="N", read=read_number, help=most)
    parser.add_argument("--bytes-per-second", metavar="N", default=0.0, read=read_number)


def apply(args: argparse.Namespace, out: Output) -> ExitCode:
    """Delete the plan's groups, and show the outcome of each. A group that is kept makes the exit code 3."""
    from airflow_kafka_groups.ledger.deletion_plan import load_plan

    cluster = options.Cluster(args)
    layout = cluster.layout()
    terms = _terms(args)
    floors = cluster.floors()
    plan = load_plan(layout, args.plan_id)
    result = _run_deletion(
        args,
        cluster,
        DeletionLimits(groups_per_second=_pace(args) or None, bytes_per_second=args.bytes_per_second or None),
        deletion_by_plan(layout, floors, args.plan_id, args.plan_digest or plan.digest, terms),
        command="apply",
        request_id=args.plan_id,
        leased=not args.no_lease,
    )
    options.write_report(layout, plan)
    back_up = cluster.command("backup", "--plan-id", plan.plan_id, "--digest", plan.digest)
    before = f"Nothing was deleted. Before a deletion, back the plan up: {back_up}"
    return _show_outcomes(out, result, cluster, before if result.report.backup is None else _to_delete(plan.digest))


def _terms(args: argparse.Namespace) -> ApprovalTerms:
    if args.approve_above is None:
        return ApprovalTerms(rule=args.approval_rule)
    if args.approval_rule != ABOVE_CAP:  # whoever gives it expects a larger plan to be refused
        remedy = f"counts with --approval-rule {ABOVE_CAP} only: add that, or leave this out"
        raise ConfigurationError("--approve-above", args.approve_above, remedy)
    return ApprovalTerms(rule=ABOVE_CAP, approve_above=args.approve_above)


def _pace(args: argparse.Namespace) -> float:
    """Return how many groups a second are deleted: as was given, or as by the site's DAGs, which spare its brokers."""
    if args.groups_per_second is not None:
        return float(args.groups_per_second)
    return read_number(f"{DEFAULTS}.groups_per_second", site_defaults().get("groups_per_second", 0))


def add_delete(parser: ArgumentTarget) -> None:
    options.add_storage_arguments(parser)
    parser.add_argument("group_ids", nargs="+", metavar="GROUP", read=read_group_ids_once)
    options.add_value(parser, "observe_seconds", default=60.0)
    parser.add_argument("--type", action="append", dest="types", metavar="TYPE", read=read_type_names)
    for flag in ("--ignore-missing", "--ignore-signs-of-life", "--allow-hidden-topics"):
        parser.add_argument(flag, action="store_true")
    _add_stopping_arguments(parser)


def delete(args: argparse.Namespace, out: Output) -> ExitCode:
    """Watch the groups, back them up, delete them, and show the outcome of each. One that is kept is exit code 3."""
    cluster = options.Cluster(args)
    result = _run_deletion(
        args,
        cluster,
        DeletionLimits(),
        cluster.deletion_by_name(cluster.layout(), cluster.floors(), args),
        command="delete",
        request_id=uuid4().hex,
    )
    return _show_outcomes(out, result, cluster, "Nothing was deleted. To delete, give --yes too.")


PLANNED = ("group_id", "topic", "partitions", "idle_seconds", "reason")
KEPT = ("group_id", "topic", "why", "reason")
_NUMBERS = ("min_idle_seconds", "min_observations", "max_groups", "max_share", "max_gap_seconds")


def add_prune_topics(parser: ArgumentTarget) -> None:
    options.add_storage_arguments(parser)
    options.add_pattern_arguments(parser)
    parser.add_argument("--snapshot-id", metavar="ID")
    options.add_numbers(parser, _NUMBERS)
    parser.add_argument("--policy-file", metavar="PATH")
    parser.add_argument("--kept", action="store_true", help="show the topics that are kept, instead of those planned")
    parser.add_argument("--plan-id", metavar="PLAN", help="apply this plan instead of making one")
    parser.add_argument("--topics-per-second", metavar="N", default=0.0, read=read_number)
    _add_deletion_arguments(parser)


def prune_topics(args: argparse.Namespace, out: Output) -> ExitCode:
    """Write a plan and show its topics, or apply one and show the outcome of each."""
    cluster = options.Cluster(args)
    if args.plan_id is None:
        if args.yes:
            raise ConfigurationError("--plan-id", None, _SEEN)
        return _plan_topics(args, cluster, out)
    for name in ("include", "exclude", "snapshot_id", "policy_file", "kept", *_NUMBERS):
        if getattr(args, name) not in (None, False):  # whoever gives one expects less to be pruned than the plan has
            remedy = "is for a new plan, and --plan-id applies a plan as it is: leave one of them out"
            raise ConfigurationError(options.flag_of(name), None, remedy)
    return _prune(args, cluster, out)


def _plan_topics(args: argparse.Namespace, cluster: options.Cluster, out: Output) -> ExitCode:
    from airflow_kafka_groups.change.plan.plan_topics import plan_topics

    layout, floors = cluster.layout(), cluster.floors()
    options.take_defaults(args, _NUMBERS, {"min_idle_seconds": "topic_idle_seconds"})
    file = options.policy_file_of(args, floors)
    policy = options.policy_of(args, cluster.settings)
    plan, path = plan_topics(layout, policy, floors, snapshot_id=args.snapshot_id, file=file)
    summary = {**plan.summary(), "path": str(path)}
    if args.kept:
        kept = [(item.group_id, item.topic, item.verdict, item.reason) for item in plan.kept]
        out.write(Table("kept", KEPT, kept), summary)
    else:
        rows = [(item.group_id, item.topic, item.partitions, item.idle_seconds, item.reason) for item in plan.groups]
        out.write(Table("topics", PLANNED, rows), summary)
    if plan.groups:
        say(f"Nothing was deleted. Next, a dry run: {cluster.command('prune-topics', '--plan-id', plan.plan_id)}")
    return ExitCode.DONE


def _prune(args: argparse.Namespace, cluster: options.Cluster, out: Output) -> ExitCode:
    from airflow_kafka_groups.change.deletion.run import TOPIC_CHUNK_SIZE
    from airflow_kafka_groups.ledger.deletion_plan import load_plan

    layout, floors = cluster.layout(), cluster.floors()
    plan = load_plan(layout, args.plan_id, prunes=True)
    result = _run_deletion(
        args,
        cluster,
        DeletionLimits(chunk_size=TOPIC_CHUNK_SIZE, groups_per_second=args.topics_per_second or None),
        deletion_by_plan(layout, floors, plan.plan_id, args.plan_digest or plan.digest, prunes=True),
        command="prune-topics",
        request_id=plan.plan_id,
    )
    return _show_outcomes(out, result, cluster, _to_delete(plan.digest), of="topic")
