"""Delete the groups of a plan: with every check, guard and record that the clean-up in Airflow has.

A dry run, unless ``--yes`` is given. Where the site or the option ``--approval-rule`` demands a person's approval, only
one that was given in Airflow counts.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from airflow_kafka_groups.change.deletion.request import DeletionLimits
from airflow_kafka_groups.cli.connection import Cluster, add_storage_arguments
from airflow_kafka_groups.cli.deleting import add_deletion_arguments, exit_code, require_allowed, run_plan, to_delete
from airflow_kafka_groups.cli.output import Output, Table, say
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError
from airflow_kafka_groups.hooks.arguments import read_integer, read_number
from airflow_kafka_groups.ledger.approval_rules import ABOVE_CAP, NEVER, RULES, ApprovalTerms

if TYPE_CHECKING:
    from airflow_kafka_groups.change.deletion.sealed_run import DeletionResult
    from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
    from airflow_kafka_groups.ledger.outcomes import DeletionReport
    from airflow_kafka_groups.storage.layout import Layout

COLUMNS = ("group_id", "outcome", "code", "reason")


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    add_storage_arguments(parser)
    parser.add_argument("plan_id", metavar="PLAN", help="the plan's id")
    add_deletion_arguments(parser)
    parser.add_argument(
        "--approval-rule",
        choices=RULES,
        default=NEVER,
        help="when a person has to have approved the plan in Airflow, beside what the site demands (default: never)",
    )
    parser.add_argument("--approve-above", metavar="N", help="threshold for above_cap (default: 100)")
    parser.add_argument("--no-lease", action="store_true", help="do not take the cluster's lease")
    parser.add_argument(
        "--groups-per-second", metavar="N", help="maximum deletions per second (default: the DAGs'; 0: no limit)"
    )
    parser.add_argument(
        "--bytes-per-second", metavar="N", default="0", help="maximum bytes written per second (default: no limit)"
    )


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Delete the plan's groups, and show the outcome of each. A group that is kept makes the exit code 3."""
    from airflow_kafka_groups.change.deletion.delete_by_plan import delete_by_plan
    from airflow_kafka_groups.checks import check_digest
    from airflow_kafka_groups.hooks.storage import policy_reader
    from airflow_kafka_groups.ledger.deletion_plan import load_plan, policy_of_plan

    cluster = Cluster(args)
    layout = cluster.layout()
    terms = _terms(args)
    require_allowed(args, cluster)
    floors = cluster.floors()
    plan = load_plan(layout, args.plan_id)
    policy = policy_reader(policy_of_plan(layout, args.plan_id))
    digest = plan.digest if args.digest is None else check_digest("--digest", args.digest)
    limits = DeletionLimits(
        groups_per_second=_pace(args) or None,
        bytes_per_second=read_number("--bytes-per-second", args.bytes_per_second) or None,
    )
    result = run_plan(
        args,
        cluster,
        limits,
        lambda admin, request: delete_by_plan(
            admin, layout, args.plan_id, digest, request, approval=terms, floors=floors, policy=policy
        ),
        command="apply",
        leased=not args.no_lease,
    )
    return _show(out, layout, plan, result, cluster)


def _terms(args: argparse.Namespace) -> ApprovalTerms:
    if args.approve_above is None:
        return ApprovalTerms(rule=args.approval_rule)
    if args.approval_rule != ABOVE_CAP:  # whoever gives it expects a larger plan to be refused
        remedy = f"counts with --approval-rule {ABOVE_CAP} only: add that, or leave this out"
        raise ConfigurationError("--approve-above", args.approve_above, remedy)
    return ApprovalTerms(rule=ABOVE_CAP, approve_above=read_integer("--approve-above", args.approve_above))


def _pace(args: argparse.Namespace) -> float:
    """Return how many groups a second are deleted: as was given, or as by the site's DAGs, which spare its brokers."""
    from airflow_kafka_groups.hooks.floors import DEFAULTS, site_defaults

    if args.groups_per_second is not None:
        return read_number("--groups-per-second", args.groups_per_second)
    return read_number(f"{DEFAULTS}.groups_per_second", site_defaults().get("groups_per_second", 0))


def _show(out: Output, layout: Layout, plan: DeletionPlan, result: DeletionResult, cluster: Cluster) -> ExitCode:
    report = result.report
    summary = {**report.summary(), "record": str(result.record)}
    if result.verification is not None:
        summary["verification"] = result.verification.to_json()
    rows = [(item.group_id, item.outcome.value, item.code, item.reason) for item in report.outcomes]
    try:
        out.write(Table("outcomes", COLUMNS, rows), summary)
    finally:  # also where nobody reads stdout, or its disk is full
        _tell(layout, plan, report, cluster)
    return exit_code(report)


def _tell(layout: Layout, plan: DeletionPlan, report: DeletionReport, cluster: Cluster) -> None:
    """Write the report, and say where it is and what comes next."""
    from airflow_kafka_groups.ledger.outcomes import Outcome
    from airflow_kafka_groups.report.html import make_report

    try:
        say(f"Report: {make_report(layout, plan)[0]}")
    except (KafkaGroupsError, OSError) as error:
        say(f"warning: the report could not be written: {error}")
    if report.dry_run and report.backup is None:
        back_up = cluster.command("backup", "--plan-id", plan.plan_id, "--digest", plan.digest)
        say(f"Nothing was deleted. Before a deletion, back the plan up: {back_up}")
    elif report.dry_run:
        say(to_delete(plan.digest))
    elif report.ids(Outcome.DELETED):
        say(f"To undo it, begin with the dry run: {cluster.command('restore', plan.plan_id)}")
