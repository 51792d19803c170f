"""Delete the groups of a plan: with every check, guard and record that the clean-up in Airflow has.

A dry run, unless ``--yes`` is given. Where the site or the option ``--approval-rule`` demands a person's approval, only
one that was given in Airflow counts.
"""

from __future__ import annotations

import argparse

from airflow_kafka_groups.change.deletion.request import DeletionLimits
from airflow_kafka_groups.cli.connection import Cluster, add_storage_arguments
from airflow_kafka_groups.cli.deleting import (
    add_deletion_arguments,
    require_allowed,
    run_deletion,
    show_outcomes,
    to_delete,
)
from airflow_kafka_groups.cli.output import Output, say
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError
from airflow_kafka_groups.hooks.arguments import read_integer, read_number
from airflow_kafka_groups.ledger.approval_rules import ABOVE_CAP, NEVER, RULES, ApprovalTerms


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    add_storage_arguments(parser)
    parser.add_argument("plan_id", metavar="PLAN")
    add_deletion_arguments(parser)
    parser.add_argument(
        "--approval-rule",
        choices=RULES,
        default=NEVER,
        help="when a person has to have approved the plan in Airflow, beside what the site demands (default: never)",
    )
    parser.add_argument("--approve-above", metavar="N")
    parser.add_argument("--no-lease", action="store_true", help="do not take the cluster's lease")
    parser.add_argument(
        "--groups-per-second", metavar="N", help="maximum deletions per second (default: the DAGs'; 0: no limit)"
    )
    parser.add_argument("--bytes-per-second", metavar="N", default="0")


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Delete the plan's groups, and show the outcome of each. A group that is kept makes the exit code 3."""
    from airflow_kafka_groups.change.deletion.delete_by_plan import delete_by_plan
    from airflow_kafka_groups.checks import check_digest
    from airflow_kafka_groups.hooks.storage import policy_reader
    from airflow_kafka_groups.ledger.deletion_plan import load_plan, policy_of_plan
    from airflow_kafka_groups.report.html import make_report

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
    result = run_deletion(
        args,
        cluster,
        limits,
        lambda admin, request: delete_by_plan(
            admin, layout, args.plan_id, digest, request, approval=terms, floors=floors, policy=policy
        ),
        command="apply",
        request_id=args.plan_id,
        leased=not args.no_lease,
    )
    try:
        say(f"Report: {make_report(layout, plan)[0]}")
    except (KafkaGroupsError, OSError) as error:
        say(f"warning: the report could not be written: {error}")
    back_up = cluster.command("backup", "--plan-id", plan.plan_id, "--digest", plan.digest)
    before = f"Nothing was deleted. Before a deletion, back the plan up: {back_up}"
    return show_outcomes(out, result, cluster, before if result.report.backup is None else to_delete(plan.digest))


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
