"""Copy committed offsets to another group of the cluster."""

from __future__ import annotations

import argparse

from airflow_kafka_groups.cli.changing import add_change_arguments, add_topics, change, distinct
from airflow_kafka_groups.cli.output import Output
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    add_change_arguments(parser)
    parser.add_argument("source", metavar="SOURCE", help="the group whose offsets are copied; it may have members")
    parser.add_argument("target", metavar="TARGET", help="the group that gets them: without members, or a new one")
    add_topics(parser)
    parser.add_argument("--existing", choices=("keep", "replace", "lower"), default="keep")


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Copy the offsets, and show the outcome."""
    from airflow_kafka_groups.change.restore.offset_requests import CopyRequest

    groups = {args.source: args.target}
    request = CopyRequest(groups=groups, topics=distinct(args.topics), existing=args.existing)
    return change(args, out, "copy", request)
