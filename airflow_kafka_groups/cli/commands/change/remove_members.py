"""Remove members from a consumer group: static members that do not come back, and zombies."""

from __future__ import annotations

import argparse

from airflow_kafka_groups.cli.changing import add_change_arguments, show_results, terms_of
from airflow_kafka_groups.cli.connection import Cluster
from airflow_kafka_groups.cli.output import Output, Table
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode

COLUMNS = ("member_id", "group_instance_id", "client_id", "host", "partitions", "outcome", "reason")

_NEXT = "Nobody was removed. To remove these members, give --yes too: those that are alive join again at once."


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    add_change_arguments(parser, partitions=False)
    parser.add_argument("group", metavar="GROUP")
    parser.add_argument("--member-id", action="append", dest="member_ids", metavar="ID")
    parser.add_argument("--instance-id", action="append", dest="instance_ids", metavar="ID")
    parser.add_argument("--all-members", action="store_true")
    parser.add_argument("--reason", metavar="TEXT", default="removed by airflow-kafka-groups")


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Remove the members, and show the outcome of each. One that is kept makes the exit code 3."""
    from airflow_kafka_groups.change.remove_members import RemoveMembersRequest, remove_members

    request = RemoveMembersRequest(
        group_id=args.group,
        member_ids=args.member_ids or (),
        instance_ids=args.instance_ids or (),
        all_members=args.all_members,
        reason=args.reason,
    )
    cluster = Cluster(args)
    layout = cluster.site_layout()
    with terms_of(args, cluster, "remove-members") as terms:
        done = cluster.run(lambda admin: remove_members(admin, layout, request, terms))
    rows = [[getattr(each, name) for name in COLUMNS] for each in done.results]
    return show_results(out, done, Table("members", COLUMNS, rows), _NEXT)
