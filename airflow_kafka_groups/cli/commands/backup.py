"""Back up the committed offsets of a plan's groups, or of any groups."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from airflow_kafka_groups.cli.changing import distinct
from airflow_kafka_groups.cli.connection import Cluster, add_storage_arguments
from airflow_kafka_groups.cli.output import Output, Table, progress_bars, say
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.cli.selection import add_pattern_arguments, filter_of, say_if_fewer_are_listed

if TYPE_CHECKING:
    from airflow_kafka_groups.change.backup.file import Backup
    from airflow_kafka_groups.hooks.guard import GuardedAdminClient

COLUMNS = ("group_id", "result", "reason")


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    add_storage_arguments(parser)
    parser.add_argument("groups", nargs="*", metavar="GROUP")
    add_pattern_arguments(parser)
    parser.add_argument("--plan-id", metavar="PLAN")
    parser.add_argument("--digest", metavar="SHA256")


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Write the backup and verify it by reading it back. A group that is not backed up makes the exit code 3."""
    from airflow_kafka_groups.change.backup.request import BackupRequest, back_up

    request = BackupRequest(
        plan_id=args.plan_id, plan_digest=args.digest, group_ids=distinct(args.groups), groups=filter_of(args)
    )
    cluster = Cluster(args)
    layout, protected = cluster.site_layout(), cluster.settings.protected_groups

    async def write(admin: GuardedAdminClient) -> Backup:
        if request.plan_id is None and request.group_ids is None:
            await say_if_fewer_are_listed(admin)
        return await back_up(admin, layout, request, protected=protected, progress=progress)

    with progress_bars() as progress:
        backup = cluster.run(write)
    rows = [(group_id, "backed_up", "") for group_id in backup.entries]
    rows += [(group_id, "left_out", reason) for group_id, reason in backup.not_backed_up.items()]
    out.write(Table("groups", COLUMNS, sorted(rows)), backup.to_json())
    if backup.failures:
        say(f"warning: {len(backup.failures)} group(s) were not backed up")
    return ExitCode.INCOMPLETE if backup.failures else ExitCode.DONE
