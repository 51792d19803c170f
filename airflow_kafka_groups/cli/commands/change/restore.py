"""Restore the offsets of a backup."""

from __future__ import annotations

import argparse

from airflow_kafka_groups.cli.changing import add_change_arguments, change, distinct
from airflow_kafka_groups.cli.output import Output
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    add_change_arguments(parser)
    parser.add_argument("plan_id", metavar="PLAN")
    parser.add_argument("groups", nargs="*", metavar="GROUP")
    parser.add_argument("--overwrite", action="store_true")


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Restore the groups, and show the outcome of each."""
    from airflow_kafka_groups.change.restore.offset_requests import RestoreRequest

    request = RestoreRequest(plan_id=args.plan_id, group_ids=distinct(args.groups), overwrite=args.overwrite)
    return change(args, out, "restore", request)
