"""Explain one group: what the cluster, the verdict, the plans and the journal say, and what would change it."""

from __future__ import annotations

import argparse

from airflow_kafka_groups.cli.connection import Cluster, add_storage_arguments, use_airflow_database
from airflow_kafka_groups.cli.output import Output, Table
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode

COLUMNS = ("check", "finding", "evidence", "what_would_change_it")


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    add_storage_arguments(parser)
    parser.add_argument("group", metavar="GROUP", help="the group's id")
    parser.add_argument(
        "--plan-id", metavar="PLAN", help="the plan (default: the newest of the DAGs, or else of this command line)"
    )


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Show the checks of one group, and whether ``apply`` would delete it now."""
    from airflow_kafka_groups.change.explain import ExplainRequest, explain_group
    from airflow_kafka_groups.hooks.storage import policy_reader

    cluster = Cluster(args)
    settings, layout = cluster.settings, cluster.layout()
    request = ExplainRequest(
        group_id=args.group,
        plan_id=args.plan_id,
        protects=settings.protects,
        read_only=settings.read_only,
        floors=cluster.floors(),
        why_stopped=_why_stopped,
        policy_reader=policy_reader,
    )
    summary, rows = explain_group(cluster.run, layout, request)
    out.write(Table("checks", COLUMNS, rows), summary)
    return ExitCode.DONE


def _why_stopped() -> str | None:
    from airflow_kafka_groups.hooks.stop_variable import STOP_VARIABLE, why_variable_stops

    use_airflow_database()
    return why_variable_stops(STOP_VARIABLE)
