"""Delete named groups, if they are empty and do not move while they are watched."""

from __future__ import annotations

import argparse
from uuid import uuid4

from airflow_kafka_groups.change.deletion.request import DeletionLimits
from airflow_kafka_groups.cli.connection import Cluster, add_storage_arguments
from airflow_kafka_groups.cli.deleting import add_stopping_arguments, require_allowed, run_deletion, show_outcomes
from airflow_kafka_groups.cli.options import add_value
from airflow_kafka_groups.cli.output import Output
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.hooks.arguments import read_duration, read_group_ids_once


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    add_storage_arguments(parser)
    parser.add_argument("groups", nargs="+", metavar="GROUP")
    add_value(parser, "observe_seconds", default="60s")
    for flag in ("--ignore-missing", "--ignore-signs-of-life", "--allow-hidden-topics"):
        parser.add_argument(flag, action="store_true")
    add_stopping_arguments(parser)


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Watch the groups, back them up, delete them, and show the outcome of each. One that is kept is exit code 3."""
    from airflow_kafka_groups.change.deletion.ad_hoc import delete_by_name

    cluster = Cluster(args)
    group_ids, seconds = read_group_ids_once("GROUP", args.groups), read_duration("--observe", args.observe_seconds)
    layout, floors = cluster.layout(), cluster.floors()
    require_allowed(args, cluster)
    result = run_deletion(
        args,
        cluster,
        DeletionLimits(),
        lambda admin, request: delete_by_name(
            admin,
            layout,
            group_ids,
            request,
            observe_seconds=seconds,
            protected=cluster.settings.kept_patterns,
            allow_hidden_topics=args.allow_hidden_topics,
            ignore_missing=args.ignore_missing,
            ignore_signs_of_life=args.ignore_signs_of_life,
            floors=floors,
        ),
        command="delete",
        request_id=uuid4().hex,
    )
    return show_outcomes(out, result, cluster, "Nothing was deleted. To delete, give --yes too.")
