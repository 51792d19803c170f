"""Show which groups can move to the rebalance protocol of KIP-848, and what blocks the others."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.cli.connection import Cluster
from airflow_kafka_groups.cli.output import Output, Table
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.cli.selection import add_group_arguments, chosen_groups, report_failures, set_aside

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka import AdminClient
    from airflow_kafka_groups.kafka.admin.readiness import GroupReadiness, Release
    from airflow_kafka_groups.kafka.admin.results import GroupResults
    from airflow_kafka_groups.kafka.models import GroupDescription

COLUMNS = (
    "group_id",
    "status",
    "type",
    "protocol_type",
    "assignor",
    "moves_to",
    "members",
    "static_members",
    "classic_members",
    "blockers",
)
_REFUSED = "this user may not describe it"
_STATUSES = ("moved", "moving", "ready", "no_members", "blocked", "other", "unknown")


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    add_group_arguments(parser)
    parser.add_argument("--status", action="append", choices=_STATUSES, help="groups with this status (repeat)")


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Show the groups, sorted by id. A group that does not exist or cannot be described makes the exit code 3."""
    from airflow_kafka_groups.kafka.admin.readiness import judge_readiness

    cluster = Cluster(args)
    release, everything, complete = cluster.run(lambda admin: _read(admin, args))
    found, refused, *_ = set_aside(args, everything, cluster.settings.protected_groups)
    judged = [judge_readiness(group, release) for _, group in sorted(found.succeeded.items())]
    wanted = set(args.status or _STATUSES)
    rows = [_row(one) for one in judged if one.status.value in wanted]
    if "unknown" in wanted:
        rows += [(group_id, "unknown", *[None] * 7, [_REFUSED]) for group_id in refused]
    out.write(Table("groups", COLUMNS, rows))
    missing = [one.group_id for one in judged if args.groups and "the group does not exist" in one.blockers]
    report_failures(found.failed, missing)
    return ExitCode.INCOMPLETE if found.failed or missing or not complete else ExitCode.DONE


async def _read(
    admin: AdminClient, args: argparse.Namespace
) -> tuple[Release | None, GroupResults[GroupDescription], bool]:
    """Return the oldest broker's release, ``None`` if one cannot be reached; the groups; whether all are listed."""
    from airflow_kafka_groups.kafka.protocol.api_versions import oldest_release

    wanted, complete = await chosen_groups(admin, args, with_offsets=False)
    cluster = await admin.describe_cluster()
    releases = [oldest_release(versions) or (0, 0) for versions in cluster.api_versions.values()]
    described = await admin.describe_consumer_groups(wanted)
    return (None if cluster.errors or not releases else min(releases)), described, complete


def _row(one: GroupReadiness) -> tuple[Any, ...]:
    return (
        one.group_id,
        one.status.value,
        one.group_type,
        one.protocol_type,
        one.assignor,
        one.moves_to,
        one.members,
        one.static_members,
        one.classic_members,
        list(one.blockers),
    )
